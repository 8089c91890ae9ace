package s3

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
	"github.com/sluicehq/sluice/test/s3test"
)

func TestMain(m *testing.M) {
	// No credentials but those of the tests.
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"} {
		_ = os.Unsetenv(name)
	}
	os.Exit(s3test.Main(m))
}

type values map[string]any

// bucket is a bucket of a real server, looked at through a client of its own.
type bucket struct {
	name     string
	endpoint string
	client   *s3.Client
}

var buckets atomic.Int64

func newBucket(t testing.TB) *bucket {
	t.Helper()
	server := s3test.Start(t)
	b := &bucket{name: fmt.Sprintf("bucket-%d", buckets.Add(1)), endpoint: server.Endpoint()}
	b.client = s3.New(s3.Options{
		BaseEndpoint: &b.endpoint, UsePathStyle: true, Region: s3test.Region,
		Credentials: credentials.NewStaticCredentialsProvider(s3test.AccessKey, s3test.SecretKey, ""),
	})
	if _, err := b.client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &b.name}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bucket) start(t testing.TB, settings values) *sink {
	t.Helper()
	settings["bucket"], settings["endpoint"] = b.name, b.endpoint
	return start(t, settings)
}

func start(t testing.TB, settings values) *sink {
	t.Helper()
	for name, v := range (values{"access_key_id": s3test.AccessKey, "secret_access_key": s3test.SecretKey, "key": "k"}) {
		if _, ok := settings[name]; !ok {
			settings[name] = v
		}
	}
	s := new(sink)
	if err := s.Start(t.Context(), pluginapi.Config{Values: settings}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}

// objects returns the keys in the bucket, in the server's order.
func (b *bucket) objects(t testing.TB) (keys []string) {
	t.Helper()
	pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{Bucket: &b.name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Contents {
			if key := aws.ToString(o.Key); !strings.HasSuffix(key, "/") {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// get returns an object's stored bytes and its headers.
func (b *bucket) get(t testing.TB, key string) ([]byte, *s3.GetObjectOutput) {
	t.Helper()
	out, err := b.client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &b.name, Key: &key})
	if err != nil {
		t.Fatalf("get %q: %v", key, err)
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body, out
}

// lines returns all lines of all objects, sorted.
func (b *bucket) lines(t testing.TB) (lines []string) {
	t.Helper()
	for _, key := range b.objects(t) {
		body, _ := b.get(t, key)
		if strings.HasSuffix(key, ".gz") {
			body = gunzip(t, body)
		}
		lines = append(lines, strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")...)
	}
	sort.Strings(lines)
	return lines
}

func gunzip(t testing.TB, body []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// open returns the uploads in parts that were neither completed nor aborted.
func (b *bucket) open(t testing.TB) int {
	t.Helper()
	out, err := b.client.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &b.name})
	if err != nil {
		t.Fatal(err)
	}
	return len(out.Uploads)
}

func text(partition int32, offset int64, value string) pluginapi.Record {
	return pluginapi.Record{
		Topic: "orders", Partition: partition, Offset: offset,
		Timestamp: time.UnixMilli(1764400000000), TimestampType: pluginapi.CreateTime,
		Value: pluginapi.DataDatum(&data.Typed{Value: data.String(value)}),
	}
}

func field(offset int64, name string, v data.Value) pluginapi.Record {
	r := text(0, offset, "")
	r.Value = pluginapi.DataDatum(&data.Typed{Value: data.Map([]data.Entry{{Key: data.String(name), Value: v}})})
	return r
}

func puts(t testing.TB, s *sink, batch ...pluginapi.Record) []pluginapi.Result {
	t.Helper()
	results, err := s.Put(t.Context(), batch)
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	if len(results) != len(batch) {
		t.Fatalf("got %d results for %d records", len(results), len(batch))
	}
	return results
}

func accepted(t testing.TB, results []pluginapi.Result, rejected ...int) {
	t.Helper()
	for i, r := range results {
		want := pluginapi.Accept
		if slices.Contains(rejected, i) {
			want = pluginapi.Reject
		}
		if r.Outcome != want {
			t.Errorf("record %d: got %s (%v), want %s", i, r.Outcome, r.Err, want)
		}
	}
}
