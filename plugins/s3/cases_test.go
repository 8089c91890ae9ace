package s3

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
	"github.com/sluicehq/sluice/test/s3test"
)

// The tests of this file and of fake_test.go are named after cases that people reported of other S3 sinks.

func TestS307LiteralPercentSequences(t *testing.T) {
	b := newBucket(t)
	s := b.start(t, values{"key": "by/{key}"})
	names := []string{"a%2Fb", "a/b", "my file", "100%", "x?y#z"}
	var batch []pluginapi.Record
	for i, name := range names {
		r := text(0, int64(i), name)
		r.Key = pluginapi.BytesDatum([]byte(name))
		batch = append(batch, r)
	}
	accepted(t, puts(t, s, batch...))
	if got := b.objects(t); len(got) != len(names) {
		t.Fatalf("got %d objects, want %d: %q", len(got), len(names), got)
	}
	for _, folder := range []string{"a%252Fb", "a%2Fb", "my file", "100%25", "x%3Fy%23z"} {
		found := false
		for _, key := range b.objects(t) {
			level := strings.Split(key, "/")
			if len(level) != 3 || level[1] != folder {
				continue
			}
			found = true
			body, _ := b.get(t, key)
			plain, err := url.PathUnescape(folder)
			if want := fmt.Sprintf("%q\n", plain); err != nil || string(body) != want {
				t.Errorf("%s holds %q, want %q", key, body, want)
			}
		}
		if !found {
			t.Errorf("no object in the folder %q: %q", folder, b.objects(t))
		}
	}
}

func TestS308PartitionValues(t *testing.T) {
	b := newBucket(t)
	s := b.start(t, values{"key": "region={value.region}/x"})
	dots := b.start(t, values{"key": "{value.region}"})
	regions := []string{"eu/west", "eu=west", "", "..", "a\nb", "EU West", "%2E%2E"}
	var batch []pluginapi.Record
	for i, region := range regions {
		batch = append(batch, field(int64(i), "region", data.String(region)))
	}
	null := len(batch)
	batch = append(batch, field(100, "region", data.Null()), field(101, "region", data.String(strings.Repeat("x", 1200))), field(102, "other", data.Int64(1)))
	accepted(t, puts(t, s, batch...), null, null+1, null+2)
	accepted(t, puts(t, dots, field(200, "region", data.String(".."))))
	var got []string
	for _, key := range b.objects(t) {
		level := strings.Split(key, "/")
		if level[0] == "%2E%2E" {
			continue
		}
		region, ok := strings.CutPrefix(level[0], "region=")
		plain, err := url.PathUnescape(region)
		if !ok || len(level) != 3 || err != nil {
			t.Errorf("object %q is not in a folder of its own level", key)
			continue
		}
		body, _ := b.get(t, key)
		var back struct{ Region string }
		if err := json.Unmarshal(body, &back); err != nil || back.Region != plain {
			t.Errorf("object %q holds the region %q", key, back.Region)
		}
		got = append(got, plain)
	}
	slices.Sort(got)
	slices.Sort(regions)
	if !slices.Equal(got, regions) {
		t.Errorf("got regions %q, want %q", got, regions)
	}
}

func TestS310GzipOnce(t *testing.T) {
	for _, tc := range []struct {
		name                        string
		settings                    values
		extension, content, encoded string
	}{
		{"default", values{"compression": "gzip"}, ".jsonl.gz", "application/gzip", ""},
		{"content encoding", values{"compression": "gzip", "content_encoding": "gzip", "extension": ".jsonl"}, ".jsonl", "application/x-ndjson", "gzip"},
		{"own content type", values{"compression": "gzip", "content_type": "text/plain"}, ".jsonl.gz", "text/plain", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBucket(t)
			accepted(t, puts(t, b.start(t, tc.settings), text(0, 1, "a"), text(0, 2, "b"), text(0, 3, "c")))
			keys := b.objects(t)
			if len(keys) != 1 || !strings.HasSuffix(keys[0], tc.extension) {
				t.Fatalf("got objects %q, want one that ends in %s", keys, tc.extension)
			}
			body, out := b.get(t, keys[0])
			if len(body) < 2 || body[0] != 0x1f || body[1] != 0x8b {
				t.Fatalf("the stored bytes begin with %x, not as gzip does", body[:2])
			}
			if got := string(gunzip(t, body)); got != "\"a\"\n\"b\"\n\"c\"\n" {
				t.Errorf("got %q", got)
			}
			if got := deref(out.ContentType); got != tc.content {
				t.Errorf("got Content-Type %q, want %q", got, tc.content)
			}
			if got := deref(out.ContentEncoding); got != tc.encoded {
				t.Errorf("got Content-Encoding %q, want %q", got, tc.encoded)
			}
		})
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestS313NamesSort(t *testing.T) {
	b := newBucket(t)
	s := b.start(t, values{})
	offsets := []int64{9_223_372_036_854_775_807, 1_000_000, 999_900, 7}
	for _, offset := range offsets {
		accepted(t, puts(t, s, text(0, offset, fmt.Sprint(offset))))
	}
	keys := b.objects(t)
	slices.Sort(keys)
	var got []string
	for _, key := range keys {
		body, _ := b.get(t, key)
		got = append(got, strings.Trim(string(body), "\"\n"))
	}
	if want := []string{"7", "999900", "1000000", "9223372036854775807"}; !slices.Equal(got, want) {
		t.Errorf("objects sort as %q, want %q", got, want)
	}
}

func TestS314TwoFlushesOneName(t *testing.T) {
	b := newBucket(t)
	const members, records, size = 3, 500, 10
	// Three members of a share group hold records of one partition in turns, and in the end the first ones are delivered
	// once more, among others.
	batches := make([][]pluginapi.Record, 0, records/size+2)
	for first := 0; first < records; first += members * size {
		for m := range members {
			var batch []pluginapi.Record
			for i := range size {
				if offset := first + i*members + m; offset < records {
					batch = append(batch, text(0, int64(offset), fmt.Sprintf("%04d", offset)))
				}
			}
			if len(batch) > 0 {
				batches = append(batches, batch)
			}
		}
	}
	batches = append(batches, []pluginapi.Record{text(0, 0, "0000"), text(0, 27, "0027")}, batches[0])
	queue := make(chan []pluginapi.Record, len(batches))
	for _, batch := range batches {
		queue <- batch
	}
	close(queue)
	var wg sync.WaitGroup
	for range members {
		s := b.start(t, values{"key": "{topic}/{partition}/{timestamp:15-04-05}"})
		wg.Go(func() {
			for batch := range queue {
				results, err := s.Put(t.Context(), batch)
				if err != nil {
					t.Errorf("put: %v", err)
				}
				accepted(t, results)
			}
		})
	}
	wg.Wait()
	distinct := slices.Compact(b.lines(t))
	if len(distinct) != records {
		t.Errorf("got %d distinct records, want %d", len(distinct), records)
	}
	// The batch that was put again replaced its object: only the two records beside it are there twice.
	if got, want := len(b.lines(t)), records+2; got != want {
		t.Errorf("got %d lines, want %d", got, want)
	}
}

func TestS317SeveralDaysInOneBatch(t *testing.T) {
	b := newBucket(t)
	s := b.start(t, values{"key": "{timestamp:2006/01/02}"})
	at := func(offset int64, moment string) pluginapi.Record {
		r := text(0, offset, moment)
		stamp, err := time.Parse(time.RFC3339, moment)
		if err != nil {
			t.Fatal(err)
		}
		r.Timestamp = stamp
		return r
	}
	none := text(0, 3, "none")
	none.Timestamp, none.TimestampType = time.Time{}, pluginapi.NoTimestamp
	results := puts(t, s, at(1, "2024-12-03T23:59:59Z"), at(2, "2024-12-04T00:00:00Z"), none)
	accepted(t, results, 2)
	for _, key := range b.objects(t) {
		body, _ := b.get(t, key)
		if day := strings.ReplaceAll(key[:10], "/", "-"); !strings.Contains(string(body), day) {
			t.Errorf("%s holds %s", key, body)
		}
	}
	if got := len(b.objects(t)); got != 2 {
		t.Errorf("got %d objects, want 2", got)
	}
}

// big returns records that make an object of several parts.
func big(parts int) (batch []pluginapi.Record) {
	for i := range parts * 5 {
		batch = append(batch, text(0, int64(i), strings.Repeat(fmt.Sprint(i%10), 1<<20)))
	}
	return batch
}

func TestS319IncompleteUploadsAfterAnError(t *testing.T) {
	b := newBucket(t)
	s := b.start(t, values{"part_size": int64(minPartSize)})

	accepted(t, puts(t, s, big(3)...))
	if got := len(b.lines(t)); got != 15 {
		t.Errorf("got %d lines, want 15", got)
	}
	key := b.objects(t)[0]
	body, out := b.get(t, key)
	if len(body) != 15*(1<<20+3) || !strings.Contains(deref(out.ETag), "-") {
		t.Errorf("the object has %d bytes and the tag %s, want one of several parts", len(body), deref(out.ETag))
	}
	if n := b.open(t); n != 0 {
		t.Errorf("%d uploads are open after a success", n)
	}
	// Stopped in the middle, as when put_timeout ends.
	u := newUpload(s.client, &s.settings, "stopped")
	line := []byte(strings.Repeat("x", minPartSize))
	if err := u.write(t.Context(), line); err != nil {
		t.Fatal(err)
	}
	if n := b.open(t); n != 1 {
		t.Fatalf("%d uploads are open, want the one in the test", n)
	}
	if err := u.abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.open(t); n != 0 {
		t.Errorf("%d uploads are open after the abort", n)
	}
}

// TestS319Killed kills a process in the middle of an upload: the records are put again and stored, and what the process left
// is one incomplete upload, for the bucket's lifecycle rule.
func TestS319Killed(t *testing.T) {
	if name := os.Getenv("SLUICE_TEST_KILL_BUCKET"); name != "" {
		s := start(t, values{"bucket": name, "endpoint": os.Getenv("SLUICE_TEST_KILL_ENDPOINT"), "part_size": int64(minPartSize)})
		u := newUpload(s.client, &s.settings, "k/killed")
		for range 2 {
			if err := u.write(t.Context(), []byte(strings.Repeat("x", minPartSize))); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Println("two parts are up")
		select {}
	}
	b := newBucket(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestS319Killed$")
	cmd.Env = append(os.Environ(), "SLUICE_TEST_KILL_BUCKET="+b.name, "SLUICE_TEST_KILL_ENDPOINT="+s3test.Start(t).Endpoint())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // It was killed.
	accepted(t, puts(t, b.start(t, values{"part_size": int64(minPartSize)}), big(2)...))
	if got := len(b.lines(t)); got != 10 {
		t.Errorf("got %d lines, want 10", got)
	}
	if n := b.open(t); n != 1 {
		t.Errorf("%d uploads are open, want the one of the process that was killed", n)
	}
}

func TestS320ArchiveCanBeRestored(t *testing.T) {
	b := newBucket(t)
	s := b.start(t, values{"include": []any{"topic", "partition", "offset", "timestamp", "key", "headers"}})
	r := pluginapi.Record{
		Topic: "orders", Partition: 3, Offset: 42, Timestamp: time.UnixMilli(0), TimestampType: pluginapi.CreateTime,
		Key: pluginapi.BytesDatum([]byte{0x00, 0xff}),
		Headers: []pluginapi.Header{
			{Key: "h", Value: pluginapi.BytesDatum([]byte("a"))}, {Key: "h", Value: pluginapi.BytesDatum([]byte("b"))}, {Key: "n"},
		},
	}
	accepted(t, puts(t, s, r))
	var back struct {
		Topic     string
		Partition int32
		Offset    int64
		Timestamp time.Time
		Key       struct{ Base64 string }
		Headers   []struct {
			Key   string
			Value *string
		}
		Value json.RawMessage
	}
	if err := json.Unmarshal([]byte(b.lines(t)[0]), &back); err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(back.Key.Base64)
	if err != nil || string(raw) != "\x00\xff" || back.Topic != "orders" || back.Partition != 3 || back.Offset != 42 ||
		back.Timestamp.UnixMilli() != 0 || string(back.Value) != "null" {
		t.Errorf("got %+v (%v)", back, err)
	}
	var headers []string
	for _, h := range back.Headers {
		headers = append(headers, h.Key+"="+deref(h.Value))
	}
	if want := []string{"h=a", "h=b", "n="}; !slices.Equal(headers, want) || back.Headers[2].Value != nil {
		t.Errorf("got headers %q, want %q with the last one null", headers, want)
	}
}

func TestPartialFailure(t *testing.T) {
	b := newBucket(t)
	s := b.start(t, values{"key": "{key}"})
	// A folder cannot be where an object is, on this server: the second object fails alone.
	if _, err := b.client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &b.name, Key: ptr("blocked")}); err != nil {
		t.Fatal(err)
	}
	keyed := func(offset int64, key string) pluginapi.Record {
		r := text(0, offset, key)
		r.Key = pluginapi.BytesDatum([]byte(key))
		return r
	}
	results, err := s.Put(t.Context(), []pluginapi.Record{keyed(1, "free"), keyed(2, "blocked"), keyed(3, "free")})
	if results[0].Outcome != pluginapi.Accept || results[2].Outcome != pluginapi.Accept || results[1].Outcome == pluginapi.Accept {
		t.Errorf("got %v, %v; want the records of the free folder accepted", results, err)
	}
}

func ptr(s string) *string { return &s }

func TestErrorsOfTheServer(t *testing.T) {
	b := newBucket(t)
	for _, tc := range []struct {
		name     string
		settings values
		want     pluginapi.Class
		code     string
	}{
		{"no bucket", values{"bucket": "nowhere"}, pluginapi.Fatal, "NoSuchBucket"},
		{"wrong secret", values{"bucket": b.name, "secret_access_key": "hush-wrong"}, pluginapi.Unavailable, "SignatureDoesNotMatch"},
		{"wrong user", values{"bucket": b.name, "access_key_id": "nobody"}, pluginapi.Unavailable, "XAdminUserNotFound"}, // This server's own word.
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.settings["endpoint"] = b.endpoint
			s := start(t, tc.settings)
			results, err := s.Put(t.Context(), []pluginapi.Record{text(0, 1, "a")})
			got := pluginapi.AsError(err, 0)
			if tc.want != pluginapi.Fatal {
				got = results[0].Err
			}
			if got == nil || got.Class != tc.want || got.Code != tc.code {
				t.Fatalf("put: got %+v (error %v), want class %s and code %s", got, err, tc.want, tc.code)
			}
			if strings.Contains(got.Message, "hush") {
				t.Errorf("the message holds the secret: %s", got.Message)
			}
			// This server answers 404 to a HEAD of an unknown user, as to one of an unknown bucket.
			if e := pluginapi.AsError(s.Check(t.Context()), 0); e == nil || (e.Class != tc.want && tc.name != "wrong user") {
				t.Errorf("check: got %+v, want class %s", e, tc.want)
			}
		})
	}
	if err := b.start(t, values{}).Check(t.Context()); err != nil {
		t.Errorf("check of a bucket that is there: %v", err)
	}
}
