package kafka

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/test/kafkatest"
)

// The second password holds characters that SASLprep would change: neither
// client may prepare it, because brokers do not. (PLAIN's users are in the
// broker's properties file, which cannot hold it.)
const (
	password    = "pass-word-1"
	oddPassword = "pass\u00a0word-ﬁ"
)

// bearer returns an unsecured token, which a broker without an issuer takes.
func bearer(algorithm string) Secret {
	enc := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	now := time.Now().Unix()
	claims := fmt.Sprintf(`{"sub":"sluice","iat":%d,"exp":%d}`, now, now+3600)
	return Secret(enc(`{"alg":"`+algorithm+`"}`) + "." + enc(claims) + ".")
}

func TestBothClientsConnect(t *testing.T) {
	mechanisms := Mechanisms()
	cluster := kafkatest.New(t, kafkatest.Options{
		Users: map[string]string{"sluice": password, "odd": oddPassword},
		Listeners: []kafkatest.Listener{
			{Name: "TLS", TLS: true},
			{Name: "MTLS", TLS: true, ClientAuth: true},
			{Name: "SASL", Mechanisms: mechanisms},
			{Name: "SECURE", TLS: true, Mechanisms: mechanisms},
		},
	})
	certs := cluster.Certificates()
	ca := &TLS{CAFile: certs.CAFile}
	login := func(mechanism string, secret Secret) *SASL {
		if mechanism == MechanismOAuthBearer {
			return &SASL{Mechanism: mechanism, Token: secret}
		}
		user := "sluice"
		if strings.HasSuffix(string(secret), oddPassword) {
			user = "odd"
		}
		return &SASL{Mechanism: mechanism, Username: user, Password: secret}
	}
	type test struct {
		name     string
		listener string
		tls      *TLS
		sasl     *SASL
		want     error // Nil is success.
	}
	tests := []test{
		{"plaintext", "PLAINTEXT", nil, nil, nil},
		{"tls", "TLS", ca, nil, nil},
		{"tls with another authority", "TLS", &TLS{CAFile: certs.OtherCAFile}, nil, ErrTLS},
		{"tls with another name", "TLS", &TLS{CAFile: certs.CAFile, ServerName: "broker.example"}, nil, ErrTLS},
		{"tls to plaintext", "PLAINTEXT", ca, nil, ErrUnreachable},
		{"plaintext to tls", "TLS", nil, nil, ErrTLS},
		{"mtls", "MTLS", &TLS{CAFile: certs.CAFile, CertFile: certs.ClientCertFile, KeyFile: certs.ClientKeyFile}, nil, nil},
		{"mtls without a certificate", "MTLS", ca, nil, ErrAuth},
		{"sasl without credentials", "SASL", nil, nil, ErrUnreachable},
	}
	for _, m := range mechanisms {
		good, bad := Secret(password), Secret("wrong-"+password)
		switch m {
		case MechanismOAuthBearer:
			good, bad = bearer("none"), bearer("RS256")
		case MechanismScramSHA256, MechanismScramSHA512:
			good, bad = oddPassword, "wrong-"+oddPassword
		}
		tests = append(tests,
			test{m, "SASL", nil, login(m, good), nil},
			test{m + " over tls", "SECURE", ca, login(m, good), nil},
			test{m + " refused", "SASL", nil, login(m, bad), ErrAuth},
			test{m + " refused over tls", "SECURE", ca, login(m, bad), ErrAuth},
		)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn := Connection{
				Name: "main", Bootstrap: cluster.BootstrapOf(tt.listener), TLS: tt.tls, SASL: tt.sasl,
				DialTimeout: 5 * time.Second, RequestTimeout: 10 * time.Second,
			}
			for client, connect := range map[string]func(context.Context, Connection) error{
				"franz": franzConnects, "sarama": saramaConnects, "admin": adminConnects,
			} {
				err, want := connect(t.Context(), conn), tt.want
				if client == "sarama" && tt.name == "plaintext to tls" {
					want = ErrUnreachable // It sees no more than a closed connection.
				}
				if !errors.Is(err, want) || (want == nil) != (err == nil) {
					t.Errorf("%s: got %v, want %v", client, err, want)
				}
				if err != nil && tt.sasl != nil && (strings.Contains(err.Error(), password) || strings.Contains(err.Error(), oddPassword)) {
					t.Errorf("%s: the password is in %v", client, err)
				}
				if err != nil {
					t.Logf("%s: %v", client, err)
				}
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	// A port that was free a moment ago refuses; one that is never accepted
	// from hangs.
	var lc net.ListenConfig
	silent, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	closed, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for name, addr := range map[string]string{"refused": refused, "silent": silent.Addr().String(), "no such host": "no-such-host.invalid:9092"} {
		t.Run(name, func(t *testing.T) {
			conn := Connection{Bootstrap: []string{addr}, DialTimeout: time.Second, RequestTimeout: time.Second}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := adminConnects(ctx, conn); !errors.Is(err, ErrUnreachable) {
				t.Errorf("got %v, want %v", err, ErrUnreachable)
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := adminConnects(ctx, Connection{Bootstrap: []string{silent.Addr().String()}})
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
			t.Errorf("got %v, want %v alone", err, context.Canceled)
		}
	})
}

func franzConnects(ctx context.Context, conn Connection) error {
	opts, err := conn.Franz()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	return wrap(client.Ping(ctx), "ping")
}

func saramaConnects(_ context.Context, conn Connection) error {
	conf, err := conn.Sarama()
	if err != nil {
		return err
	}
	conf.Metadata.Full = true
	conf.Metadata.Retry.Max = 0
	client, err := sarama.NewClient(conn.Bootstrap, conf)
	if err != nil {
		return wrap(err, "connect")
	}
	defer func() { _ = client.Close() }()
	_, err = client.RefreshController()
	return wrap(err, "ask for the controller")
}

func adminConnects(ctx context.Context, conn Connection) error {
	a, err := Open(ctx, conn, nil)
	if err != nil {
		return err
	}
	return a.Close()
}
