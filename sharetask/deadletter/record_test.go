package deadletter

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluicehq/sluice/internal/kafka/confirm"
)

func TestHeadersAreBoundedText(t *testing.T) {
	l := letter(0, 1, nil)
	l.Message = strings.Repeat("ä", maxMessageBytes)
	l.Code = "bad \xff byte" + strings.Repeat("c", maxCodeBytes)
	total := 0
	for _, h := range headers(&l, source{connector: "c", group: "g"}, confirm.Form{Omit: confirm.All, Now: true, MaxedBytes: 1}) {
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
	m := message(&l, source{}, confirm.Form{})
	clear(v)
	if string(m.Value) != "value" {
		t.Errorf("got %q, want the value as it was", m.Value)
	}
}
