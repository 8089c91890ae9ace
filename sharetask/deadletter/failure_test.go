package deadletter

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestNext(t *testing.T) {
	tests := []struct {
		name  string
		form  form
		err   error
		want  form
		wait  bool
		final bool
	}{
		{"uncertain waits and tries the same", form{}, io.EOF, form{}, true, false},
		{"uncertain alone stays alone", form{alone: true, omit: value}, kerr.NotLeaderForPartition, form{alone: true, omit: value}, true, false},
		{"not sent by someone else goes at once", form{}, errNotSent, form{}, false, false},
		{"batch too large: alone first", form{}, kerr.MessageTooLarge, form{alone: true}, false, false},
		{"larger than the client's limit: the broker shall say", form{}, fmt.Errorf("%w: larger", kerr.MessageTooLarge), form{alone: true}, false, false},
		{"too large alone: without its value", form{alone: true}, kerr.MessageTooLarge, form{alone: true, omit: value, maxedBytes: 7}, false, false},
		{"then without everything", form{alone: true, omit: value, maxedBytes: 9}, kerr.RecordListTooLarge, form{alone: true, omit: all, maxedBytes: 9}, false, false},
		{"then not at all", form{alone: true, omit: all}, kerr.MessageTooLarge, form{alone: true, omit: all}, false, true},
		{"timestamp: alone first", form{}, kerr.InvalidTimestamp, form{alone: true}, false, false},
		{"timestamp alone: now", form{alone: true}, kerr.InvalidTimestamp, form{alone: true, now: true}, false, false},
		{"not even now", form{alone: true, now: true}, kerr.InvalidTimestamp, form{alone: true, now: true}, false, true},
		{"bad record: alone first", form{}, kerr.InvalidRecord, form{alone: true}, false, false},
		{"bad record alone", form{alone: true}, kerr.InvalidRecord, form{alone: true}, false, true},
		{"no right", form{}, kerr.TopicAuthorizationFailed, form{}, false, true},
		{"no topic", form{}, kerr.UnknownTopicOrPartition, form{}, false, true},
		{"closed", form{}, errClosed, form{}, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, wait, final := tt.form.next(tt.err, 7)
			if got != tt.want || wait != tt.wait || final != tt.final {
				t.Errorf("got %+v, wait %t, final %t, want %+v, %t, %t", got, wait, final, tt.want, tt.wait, tt.final)
			}
		})
	}
}

func TestHeadersAreBoundedText(t *testing.T) {
	l := letter(0, 1, nil)
	l.Message = strings.Repeat("ä", maxMessageBytes)
	l.Code = "bad \xff byte" + strings.Repeat("c", maxCodeBytes)
	total := 0
	for _, h := range headers(&l, source{connector: "c", group: "g"}, form{omit: all, now: true, maxedBytes: 1}) {
		if !utf8.Valid(h.Value) {
			t.Errorf("header %s is not UTF-8: %q", h.Key, h.Value)
		}
		total += len(h.Key) + len(h.Value)
	}
	if total > 6<<10 {
		t.Errorf("headers take %d bytes, want them bounded", total)
	}
	if got := cut("äää", 5); got != "ä…" {
		t.Errorf("got %q, want %q", got, "ä…")
	}
}

// The record's memory is used again after Write, while the client may still
// hold the message.
func TestMessageIsACopy(t *testing.T) {
	v := []byte("value")
	l := letter(0, 1, v)
	m := message(&l, "dlq", source{}, form{})
	clear(v)
	if string(m.Value) != "value" {
		t.Errorf("got %q, want the value as it was", m.Value)
	}
}
