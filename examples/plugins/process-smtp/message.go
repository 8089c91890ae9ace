package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"mime"
	"net/mail"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicehq/sluice/pluginapi"
)

// message returns the mail of a record. Its Message-ID is the record's, so that
// a mail sent twice after a crash can be told to be one.
func message(from *mail.Address, to []*mail.Address, subject string, r *pluginapi.Record, now time.Time) []byte {
	when := now
	if r.TimestampType != pluginapi.NoTimestamp {
		when = r.Timestamp
	}
	names := make([]string, len(to))
	for i, a := range to {
		names[i] = a.String()
	}
	var b bytes.Buffer
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, value) }
	header("From", from.String())
	header("To", strings.Join(names, ", "))
	header("Subject", mime.QEncoding.Encode("utf-8", oneLine(subject)))
	header("Date", when.UTC().Format(time.RFC1123Z))
	header("Message-ID", fmt.Sprintf("<%s@sluice>", strings.ReplaceAll(r.ID(), "/", ".")))
	header("MIME-Version", "1.0")
	body := r.Value.AppendText(nil)
	contentType := "text/plain; charset=utf-8"
	if !utf8.Valid(body) {
		contentType = "application/octet-stream"
	}
	header("Content-Type", contentType)
	header("Content-Transfer-Encoding", "base64")
	b.WriteString("\r\n")
	text := base64.StdEncoding.EncodeToString(body)
	for len(text) > 0 {
		n := min(len(text), 76)
		b.WriteString(text[:n] + "\r\n")
		text = text[n:]
	}
	return b.Bytes()
}

// oneLine keeps a record's text from adding headers of its own.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
