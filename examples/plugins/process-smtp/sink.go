package main

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"net/textproto"
	"strconv"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/template"
)

// sink sends records as mails, one connection at a time. The host calls its
// methods one at a time.
type sink struct {
	server        server
	from          mail.Address
	to, subject   *template.Template
	conn          *session // Nil until needed, and after an error.
	subjectBuffer []byte
}

var (
	_ pluginapi.Sink     = (*sink)(nil)
	_ pluginapi.Checker  = (*sink)(nil)
	_ pluginapi.Reporter = (*sink)(nil)
)

// Start reads the settings. It connects to nothing: the first Check or Put does.
func (s *sink) Start(_ context.Context, cfg pluginapi.Config) error {
	s.server = server{
		address: cfg.String("address"), tls: cfg.String("tls"),
		username: cfg.String("username"), password: cfg.String("password"),
		timeout: cfg.Duration("timeout"),
	}
	from, err := mail.ParseAddress(cfg.String("from"))
	if err != nil {
		return pluginapi.NewError(pluginapi.Invalid, "from", "from is not an address: "+err.Error())
	}
	s.from = *from
	if s.to, err = template.Parse(cfg.String("to")); err != nil {
		return pluginapi.NewError(pluginapi.Invalid, "to", err.Error())
	}
	if s.subject, err = template.Parse(cfg.String("subject")); err != nil {
		return pluginapi.NewError(pluginapi.Invalid, "subject", err.Error())
	}
	return nil
}

// Check reports whether the server answers and lets us in.
func (s *sink) Check(ctx context.Context) error {
	conn, err := s.session(ctx)
	if err == nil {
		err = conn.client.Noop()
	}
	if err != nil {
		s.hangUp()
		return failure(err).Err
	}
	return nil
}

// Put is what a host without reports would call.
func (s *sink) Put(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	results := make([]pluginapi.Result, len(batch))
	err := s.PutReport(ctx, batch, func(first int, r []pluginapi.Result) { copy(results[first:], r) })
	return results, err
}

// PutReport sends the records one after the other and reports each at once: a
// mail that is out cannot be called back, so what is known must not get lost.
func (s *sink) PutReport(ctx context.Context, batch []pluginapi.Record, report func(first int, results []pluginapi.Result)) error {
	s.refresh(ctx)
	for i := range batch {
		result := s.send(ctx, &batch[i])
		report(i, []pluginapi.Result{result})
		if result.Outcome != pluginapi.Retry || result.Err.Class != pluginapi.Unavailable {
			continue
		}
		// The server is gone for the rest of the batch too.
		rest := make([]pluginapi.Result, len(batch)-i-1)
		for j := range rest {
			rest[j] = result
		}
		report(i+1, rest)
		return nil
	}
	return nil
}

// Stop ends the conversation.
func (s *sink) Stop(context.Context) error {
	if s.conn != nil {
		_ = s.conn.client.Quit() // The server keeps what it took either way.
	}
	s.hangUp()
	return nil
}

// send sends one record.
func (s *sink) send(ctx context.Context, r *pluginapi.Record) pluginapi.Result {
	to, subject, err := s.fill(r)
	if err != nil {
		return pluginapi.Rejected("template", err.Error())
	}
	conn, err := s.session(ctx)
	if err == nil {
		err = conn.send(&s.from, to, message(&s.from, to, subject, r, time.Now()))
	}
	if err == nil {
		return pluginapi.Result{Outcome: pluginapi.Accept}
	}
	s.hangUp()
	return failure(err)
}

// fill returns the recipients and the subject of a record's mail.
func (s *sink) fill(r *pluginapi.Record) ([]*mail.Address, string, error) {
	text, err := s.to.Append(nil, r)
	if err != nil {
		return nil, "", err
	}
	to, err := mail.ParseAddressList(string(text))
	if err != nil {
		return nil, "", fmt.Errorf("recipients: %w", err)
	}
	if s.subjectBuffer, err = s.subject.Append(s.subjectBuffer[:0], r); err != nil {
		return nil, "", err
	}
	return to, string(s.subjectBuffer), nil
}

// session returns the open session, or a new one.
func (s *sink) session(ctx context.Context) (*session, error) {
	if s.conn != nil {
		s.conn.ctx(ctx)
		return s.conn, nil
	}
	conn, err := s.server.dial(ctx)
	if err != nil {
		return nil, err
	}
	s.conn = conn
	return conn, nil
}

// refresh drops a session the server has closed since the last batch, which is
// no reason to call it down.
func (s *sink) refresh(ctx context.Context) {
	if s.conn == nil {
		return
	}
	s.conn.ctx(ctx)
	if s.conn.client.Noop() != nil {
		s.hangUp()
	}
}

func (s *sink) hangUp() {
	if s.conn != nil {
		_ = s.conn.client.Close()
		s.conn = nil
	}
}

// failure turns an error into a result. This is the one place that decides what
// may be tried again: SMTP's own codes say so (RFC 5321, section 4.2.1).
func failure(err error) pluginapi.Result {
	var answer *textproto.Error
	if !errors.As(err, &answer) {
		return pluginapi.Retried(pluginapi.NewError(pluginapi.Unavailable, "connection", err.Error()))
	}
	code := strconv.Itoa(answer.Code)
	switch {
	case errors.Is(err, errRefusedUs), answer.Code == 421:
		// Wrong password, no TLS, shutting down: not the record's fault.
		return pluginapi.Retried(pluginapi.NewError(pluginapi.Unavailable, code, answer.Msg))
	case answer.Code == 450, answer.Code == 452:
		return pluginapi.Retried(pluginapi.NewError(pluginapi.Throttled, code, answer.Msg))
	case answer.Code/100 == 5:
		return pluginapi.Rejected(code, answer.Msg)
	}
	return pluginapi.Retried(pluginapi.NewError(pluginapi.Transient, code, answer.Msg))
}
