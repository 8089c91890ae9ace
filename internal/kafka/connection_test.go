package kafka

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestValidateNamesEveryProblem(t *testing.T) {
	plain := func(edit func(*SASL)) Connection {
		s := &SASL{Mechanism: MechanismPlain, Username: "u", Password: "p"}
		edit(s)
		return Connection{Bootstrap: []string{"h:1"}, SASL: s}
	}
	tests := []struct {
		name string
		conn Connection
		want []string // Texts the error must hold; none is no error.
	}{
		{"plaintext", Connection{Bootstrap: []string{"127.0.0.1:9092", "[::1]:9092", "broker.example:1"}}, nil},
		{"everything", Connection{Bootstrap: []string{"h:1"}, TLS: &TLS{CertFile: "c", KeyFile: "k"}, SASL: plain(func(*SASL) {}).SASL}, nil},
		{"no address", Connection{}, []string{"bootstrap: at least one"}},
		{"bad addresses", Connection{Bootstrap: []string{"h", ":1", "h:0", "h:65536", "h:x"}}, []string{`"h" is not`, `":1" has no host`, `"h:0"`, `"h:65536"`, `"h:x"`}},
		{"negative timeouts", Connection{Bootstrap: []string{"h:1"}, DialTimeout: -1, RequestTimeout: -1}, []string{"dial_timeout", "request_timeout"}},
		{"certificate without key", Connection{Bootstrap: []string{"h:1"}, TLS: &TLS{CertFile: "c"}}, []string{"cert_file and key_file go together"}},
		{"unknown mechanism", plain(func(s *SASL) { s.Mechanism = "GSSAPI" }), []string{`mechanism "GSSAPI"`, "SCRAM-SHA-512"}},
		{"no username, no password", plain(func(s *SASL) { s.Username, s.Password = "", "" }), []string{"username is needed", "password is needed"}},
		{"token with plain", plain(func(s *SASL) { s.Token = "t" }), []string{"token has no use"}},
		{"bearer without token", plain(func(s *SASL) { s.Mechanism = MechanismOAuthBearer }), []string{"token is needed", "username and password have no use"}},
		{"bearer", Connection{Bootstrap: []string{"h:1"}, SASL: &SASL{Mechanism: MechanismOAuthBearer, Token: "t"}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.conn.Validate()
			if len(tt.want) == 0 && err != nil {
				t.Fatalf("got %v, want no error", err)
			}
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want it to hold %q", err, want)
				}
			}
		})
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	const password = "hunter2-hunter2"
	conn := Connection{Name: "main", Bootstrap: []string{"h:1"}, SASL: &SASL{Mechanism: "WRONG", Username: "u", Password: password, Token: password}}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "sasl", conn.SASL, "password", conn.SASL.Password, "value", *conn.SASL)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "sasl", conn.SASL, "conn", conn)
	asJSON, err := json.Marshal(conn)
	if err != nil {
		t.Fatal(err)
	}
	shown := []string{
		log.String(), string(asJSON), conn.String(), conn.Validate().Error(),
		fmt.Sprintf("%v %+v %#v %s %q", *conn.SASL, *conn.SASL, *conn.SASL, conn.SASL.Password, conn.SASL.Password),
	}
	for _, s := range shown {
		if strings.Contains(s, password) {
			t.Errorf("the password is shown: %s", s)
		}
	}
	if !strings.Contains(log.String(), redacted) {
		t.Errorf("got %q, want it to say that there is a secret", log.String())
	}
}

func TestClientsGetTheTimeouts(t *testing.T) {
	conn := Connection{Bootstrap: []string{"h:1"}}
	conf, err := conn.Sarama()
	if err != nil {
		t.Fatal(err)
	}
	if conf.Net.ReadTimeout != DefaultRequestTimeout || conf.Net.DialTimeout != DefaultDialTimeout {
		t.Errorf("got read %v and dial %v, want the defaults", conf.Net.ReadTimeout, conf.Net.DialTimeout)
	}
	if conf.Metadata.AllowAutoTopicCreation {
		t.Error("asking for a topic would make it")
	}
	if conf.ClientID != "sluice" {
		t.Errorf("got client id %q, want sluice", conf.ClientID)
	}
	conn.RequestTimeout, conn.DialTimeout = 7*time.Second, 3*time.Second
	if conf, err = conn.Sarama(); err != nil {
		t.Fatal(err)
	}
	if conf.Net.ReadTimeout != 7*time.Second || conf.Net.DialTimeout != 3*time.Second {
		t.Errorf("got read %v and dial %v, want 7s and 3s", conf.Net.ReadTimeout, conf.Net.DialTimeout)
	}
}

func TestReset(t *testing.T) {
	tests := []struct{ in, want string }{
		{"earliest", "earliest"},
		{"latest", "latest"},
		{"1h", "by_duration:PT3600S"},
		{"1500ms", "by_duration:PT1.5S"},
		{"", ""},
		{"-1h", ""},
		{"1us", ""},
		{"newest", ""},
	}
	for _, tt := range tests {
		r, err := ParseReset(tt.in)
		if tt.want == "" {
			if err == nil {
				t.Errorf("%q: got %v, want an error", tt.in, r)
			}
			continue
		}
		if err != nil || r.String() != tt.want {
			t.Errorf("%q: got %v, %v, want %s", tt.in, r, err, tt.want)
		}
	}
}
