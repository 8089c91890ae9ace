package parking

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

// read returns m as it is read from the retry topic.
func read(m *kgo.Record) pluginapi.Record {
	r := pluginapi.Record{Topic: "retry", Offset: 7, Key: pluginapi.BytesDatum(m.Key), Value: pluginapi.BytesDatum(m.Value)}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, pluginapi.Header{Key: h.Key, Value: pluginapi.BytesDatum(h.Value)})
	}
	return r
}

func parked() sharetask.Parked {
	at := time.UnixMilli(1_700_000_000_123)
	return sharetask.Parked{
		Record: &pluginapi.Record{
			Topic: "orders", Key: pluginapi.BytesDatum([]byte("k")), Value: pluginapi.BytesDatum([]byte{}),
			Headers: []pluginapi.Header{{Key: "a", Value: pluginapi.BytesDatum(nil)}, {Key: prefix + "topic", Value: pluginapi.BytesDatum([]byte("theirs"))}},
		},
		Origin: sharetask.Origin{
			Topic: "orders", TopicID: pluginapi.TopicID{1, 15: 255}, Partition: 3, Offset: 42, Timestamp: at, TimestampType: pluginapi.LogAppendTime,
			Due: at.Add(time.Minute), Since: at.Add(time.Second), Attempts: 4, Spent: 90 * time.Second,
		},
	}
}

func TestWhatIsParkedComesBack(t *testing.T) {
	plain, bare := parked(), parked()
	bare.Record.Headers, bare.Record.Key, bare.Record.Value = nil, pluginapi.Datum{}, pluginapi.Datum{}
	bare.Origin.Timestamp, bare.Origin.TimestampType, bare.Origin.TopicID, bare.Origin.Spent = time.Time{}, pluginapi.NoTimestamp, pluginapi.TopicID{}, 0
	for _, p := range []sharetask.Parked{plain, bare} {
		r := read(message(&p, "g"))
		if o := unpark(&r, "g"); !reflect.DeepEqual(o, p.Origin) {
			t.Errorf("got %+v\nwant %+v", o, p.Origin)
		}
		if len(r.Headers) != len(p.Record.Headers) {
			t.Errorf("%d headers are left, want the record's %d", len(r.Headers), len(p.Record.Headers))
		}
		for i, h := range p.Record.Headers {
			if got := r.Headers[i]; got.Key != h.Key || !reflect.DeepEqual(got.Value, h.Value) {
				t.Errorf("header %d is %v, want %v", i, got, h)
			}
		}
		if r.Value.IsAbsent() != p.Record.Value.IsAbsent() || r.Key.IsAbsent() != p.Record.Key.IsAbsent() {
			t.Errorf("key %v and value %v, want %v and %v: a null stays one", r.Key, r.Value, p.Record.Key, p.Record.Value)
		}
	}
}

func TestForeignRecordsAreNamed(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*pluginapi.Record)
		want string
	}{
		{"no headers", func(r *pluginapi.Record) { r.Headers = nil }, "not written by Sluice"},
		{"other headers", func(r *pluginapi.Record) { r.Headers[len(r.Headers)-1].Key = "x" }, "spent.ms is missing"},
		{"another group", func(r *pluginapi.Record) { set(r, headerGroup, "other") }, `parked by group "other"`},
		{"no number", func(r *pluginapi.Record) { set(r, headerOffset, "4x") }, `offset is "4x"`},
		{"negative", func(r *pluginapi.Record) { set(r, headerPartition, "-1") }, `partition is "-1"`},
		{"not tried yet", func(r *pluginapi.Record) { set(r, headerAttempts, "0") }, `attempts is "0"`},
		{"bad id", func(r *pluginapi.Record) { set(r, headerTopicID, "00ff") }, "32 hexadecimal digits"},
		{"endless topic", func(r *pluginapi.Record) { set(r, headerTopic, strings.Repeat("t", 250)) }, "250 bytes"},
		{"overflow", func(r *pluginapi.Record) { set(r, headerSpent, "9223372036854775807") }, "spent.ms is"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := parked()
			r := read(message(&p, "g"))
			tt.edit(&r)
			n := len(r.Headers)
			o := unpark(&r, "g")
			if o.Err == nil || !strings.Contains(o.Err.Error(), tt.want) {
				t.Errorf("got %v, want a word of %q", o.Err, tt.want)
			}
			if o.Topic != "" || len(r.Headers) != n {
				t.Errorf("it is half believed: %+v", o)
			}
		})
	}
}

func set(r *pluginapi.Record, i int, text string) {
	r.Headers[len(r.Headers)-headers+i].Value = pluginapi.BytesDatum([]byte(text))
}

// FuzzUnpark: whatever the headers say, the answer is an error or makes sense.
func FuzzUnpark(f *testing.F) {
	p := parked()
	seed := read(message(&p, "g"))
	var texts []string
	for _, h := range seed.Headers[len(seed.Headers)-headers:] {
		b, _ := h.Value.Bytes()
		texts = append(texts, string(b))
	}
	f.Add(strings.Join(texts, "\n"))
	f.Add("g\nt\n\n-1")
	f.Fuzz(func(t *testing.T, all string) {
		p := parked()
		r := read(message(&p, "g"))
		for i, text := range strings.SplitN(all, "\n", headers) {
			set(&r, i, text)
		}
		o := unpark(&r, "g")
		if o.Err == nil && (o.Topic == "" || o.Partition < 0 || o.Offset < 0 || o.Attempts < 1 || o.Spent < 0 || o.TimestampType > pluginapi.LogAppendTime) {
			t.Errorf("took %+v", o)
		}
	})
}
