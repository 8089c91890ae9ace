package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// mailServer is an SMTP server that keeps mails. It answers RCPT by the first
// word of the address: "full@", "gone@", "closing@".
type mailServer struct {
	listener net.Listener
	mu       sync.Mutex
	mails    []string // Guarded by mu.
}

func newMailServer(t *testing.T) *mailServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &mailServer{listener: l}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.talk(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return s
}

func (s *mailServer) talk(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	say := func(line string) { fmt.Fprintf(conn, "%s\r\n", line) }
	say("220 ready")
	r := bufio.NewScanner(conn)
	for r.Scan() {
		line := r.Text()
		switch word, _, _ := strings.Cut(line, " "); word {
		case "RCPT":
			switch {
			case strings.Contains(line, "full@"):
				say("452 mailbox full")
			case strings.Contains(line, "gone@"):
				say("550 no such user")
			case strings.Contains(line, "closing@"):
				say("421 closing down")
				return
			default:
				say("250 ok")
			}
		case "DATA":
			say("354 go on")
			var b strings.Builder
			for r.Scan() && r.Text() != "." {
				b.WriteString(r.Text() + "\r\n")
			}
			s.mu.Lock()
			s.mails = append(s.mails, b.String())
			s.mu.Unlock()
			say("250 taken")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func started(t *testing.T, address string) *sink {
	t.Helper()
	s := new(sink)
	err := s.Start(t.Context(), pluginapi.Config{Connector: "c", Logger: slog.New(slog.DiscardHandler), Values: map[string]any{
		"address": address, "tls": tlsNone, "timeout": 2 * time.Second,
		"from": "sluice@example.com", "to": "{header.to}", "subject": "order {offset}: {header.subject}",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.WithoutCancel(t.Context())) })
	return s
}

func record(offset int64, to, subject, value string) pluginapi.Record {
	return pluginapi.Record{
		Topic: "orders", Offset: offset, Timestamp: time.UnixMilli(1700000000000), TimestampType: pluginapi.CreateTime,
		Value: pluginapi.BytesDatum([]byte(value)),
		Headers: []pluginapi.Header{
			{Key: "to", Value: pluginapi.BytesDatum([]byte(to))},
			{Key: "subject", Value: pluginapi.BytesDatum([]byte(subject))},
		},
	}
}

func TestPut(t *testing.T) {
	server := newMailServer(t)
	s := started(t, server.listener.Addr().String())
	results, err := s.Put(t.Context(), []pluginapi.Record{
		record(1, "a@example.com, b@example.com", "grüß dich\r\nBcc: all@example.com", "hello"),
		record(2, "gone@example.com", "x", "x"),
		record(3, "full@example.com", "x", "x"),
		record(4, "no address", "x", "x"),
		record(5, "a@example.com", "x", ".\r\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"accept", "reject 550", "retry 452 throttled", "reject template", "accept"}
	for i, r := range results {
		got := r.Outcome.String()
		if r.Err != nil {
			got += " " + r.Err.Code
		}
		if r.Outcome == pluginapi.Retry {
			got += " " + r.Err.Class.String()
		}
		if got != want[i] {
			t.Errorf("record %d: %s, want %s", i+1, got, want[i])
		}
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if len(server.mails) != 2 {
		t.Fatalf("%d mails, want 2", len(server.mails))
	}
	m, err := mail.ReadMessage(strings.NewReader(server.mails[0]))
	if err != nil {
		t.Fatal(err)
	}
	if m.Header.Get("Bcc") != "" {
		t.Error("the record's subject added a header")
	}
	if got := m.Header.Get("Message-ID"); got != "<orders.0.1@sluice>" {
		t.Errorf("message id %s", got)
	}
	body, err := base64.StdEncoding.DecodeString(strings.TrimSpace(server.mails[0][strings.Index(server.mails[0], "\r\n\r\n"):]))
	if err != nil || string(body) != "hello" {
		t.Errorf("body %q, %v", body, err)
	}
}

func TestServerThatIsDownIsUnavailable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	s := started(t, address)
	if e := pluginapi.AsError(s.Check(t.Context()), pluginapi.NoClass); e == nil || e.Class != pluginapi.Unavailable {
		t.Errorf("check: %v", e)
	}
	results, err := s.Put(t.Context(), []pluginapi.Record{record(1, "a@example.com", "", ""), record(2, "a@example.com", "", "")})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Outcome != pluginapi.Retry || r.Err.Class != pluginapi.Unavailable {
			t.Errorf("record %d: %+v", i, r)
		}
	}
}

func TestServerThatClosesIsUnavailableForTheRest(t *testing.T) {
	s := started(t, newMailServer(t).listener.Addr().String())
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	results, err := s.Put(t.Context(), []pluginapi.Record{
		record(1, "a@example.com", "", ""), record(2, "closing@example.com", "", ""), record(3, "a@example.com", "", ""),
	})
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Outcome != pluginapi.Accept || results[1].Outcome != pluginapi.Retry || results[2].Outcome != pluginapi.Retry {
		t.Errorf("results %+v", results)
	}
	// It is there again for the next batch.
	if results, err := s.Put(t.Context(), []pluginapi.Record{record(3, "a@example.com", "", "")}); err != nil || results[0].Outcome != pluginapi.Accept {
		t.Errorf("results %+v, %v", results, err)
	}
}

func TestPluginDescribesItself(t *testing.T) {
	p := Plugin()
	d := p.Describe()
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
	if !d.Can(pluginapi.CanCheck) || !d.Can(pluginapi.CanReport) {
		t.Errorf("capabilities %v", d.Capabilities)
	}
}
