package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/smtp"
	"time"
)

// The values of the setting tls.
const (
	tlsStart = "starttls"
	tlsNone  = "none"
)

// errRefusedUs marks an answer that concerns the session, not a mail.
var errRefusedUs = errors.New("the server refuses us")

// server is where mails go.
type server struct {
	address, tls       string
	username, password string
	timeout            time.Duration
}

// session is a conversation with the server, past its greeting.
type session struct {
	client  *smtp.Client
	conn    net.Conn
	timeout time.Duration
	until   time.Time // The context's deadline; zero means none.
}

// dial opens a session. A refusal wraps errRefusedUs.
func (s *server) dial(ctx context.Context) (_ *session, err error) {
	d := net.Dialer{Timeout: s.timeout}
	conn, err := d.DialContext(ctx, "tcp", s.address)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	out := &session{conn: conn, timeout: s.timeout}
	out.ctx(ctx)
	host, _, err := net.SplitHostPort(s.address)
	if err != nil {
		return nil, err
	}
	if out.client, err = smtp.NewClient(conn, host); err != nil {
		return nil, refused("greeting", err)
	}
	if s.tls == tlsStart {
		if err := out.client.StartTLS(&tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}); err != nil {
			return nil, refused("start TLS", err)
		}
	}
	if s.username != "" {
		if err := out.client.Auth(smtp.PlainAuth("", s.username, s.password, host)); err != nil {
			return nil, refused("log in", err)
		}
	}
	return out, nil
}

func refused(step string, err error) error {
	return fmt.Errorf("%s: %w: %w", step, errRefusedUs, err)
}

// ctx makes the conversation end when ctx does, or the timeout is over.
func (s *session) ctx(ctx context.Context) {
	s.until, _ = ctx.Deadline()
	s.step()
}

// step gives the next step its time.
func (s *session) step() {
	end := time.Now().Add(s.timeout)
	if !s.until.IsZero() && s.until.Before(end) {
		end = s.until
	}
	_ = s.conn.SetDeadline(end) // A connection that is broken says so when used.
}

// send hands over one mail. It returns nil once the server has taken it.
func (s *session) send(from *mail.Address, to []*mail.Address, text []byte) error {
	s.step()
	if err := s.client.Mail(from.Address); err != nil {
		return err
	}
	for _, a := range to {
		s.step()
		if err := s.client.Rcpt(a.Address); err != nil {
			return err
		}
	}
	s.step()
	w, err := s.client.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	return w.Close()
}
