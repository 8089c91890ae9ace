package kafkatest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func TestSharedProducesAndReads(t *testing.T) {
	began := time.Now()
	c := Shared(t)
	t.Logf("ready after %v", time.Since(began))
	if again := Shared(t); again != c {
		t.Error("Shared made a second cluster")
	}
	topic := c.Topic(t, 3)
	c.Produce(t, topic, 100, 1000, 200)
	records := c.ReadAll(t, topic)
	if len(records) != 1000 {
		t.Fatalf("read %d records, want 1000", len(records))
	}
	seen := map[int]bool{}
	partitions := map[int32]bool{}
	for _, r := range records {
		id, err := ID(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Value) != 200 {
			t.Fatalf("value of %d bytes, want 200", len(r.Value))
		}
		seen[id], partitions[r.Partition] = true, true
	}
	if len(seen) != 1000 || !seen[100] || !seen[1099] {
		t.Errorf("%d ids, want the 1000 from 100", len(seen))
	}
	if len(partitions) != 3 {
		t.Errorf("records in %d partitions, want 3", len(partitions))
	}
}

func TestReadAllOfAnEmptyTopic(t *testing.T) {
	c := Shared(t)
	if got := c.ReadAll(t, c.Topic(t, 2)); len(got) != 0 {
		t.Errorf("read %d records of an empty topic", len(got))
	}
}

func TestFeatures(t *testing.T) {
	c := Shared(t)
	request := kmsg.NewPtrApiVersionsRequest()
	request.ClientSoftwareName, request.ClientSoftwareVersion = "kafkatest", "1"
	response, err := request.RequestWith(t.Context(), c.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int16{}
	for _, f := range response.FinalizedFeatures {
		got[f.Name] = f.MaxVersionLevel
	}
	for _, name := range []string{"share.version", "transaction.version"} {
		if got[name] != 2 {
			t.Errorf("%s is %d, want 2", name, got[name])
		}
	}
}

func TestThreeBrokersFail(t *testing.T) {
	began := time.Now()
	c := New(t, Options{Brokers: 3, Properties: map[string]string{"group.share.record.lock.duration.ms": "15000"}})
	t.Logf("three brokers ready after %v", time.Since(began))
	topic := c.Topic(t, 3)
	c.Produce(t, topic, 0, 100, 100)

	step := func(name string, do func()) {
		began := time.Now()
		do()
		t.Logf("%s took %v", name, time.Since(began))
	}
	step("kill", func() { c.Kill(t, 0) })
	step("produce with a broker dead", func() { c.Produce(t, topic, 100, 100, 100) })
	step("start after a kill", func() { c.Start(t, 0) })
	c.Pause(t, 1)
	c.Continue(t, 1)
	step("stop", func() { c.Stop(t, 1) })
	if _, err := net.DialTimeout("tcp", c.Bootstrap()[1], time.Second); err == nil {
		t.Error("a stopped broker still listens")
	}
	step("start after a stop", func() { c.Start(t, 1) })
	if got := len(c.ReadAll(t, topic)); got != 200 {
		t.Errorf("read %d records, want 200", got)
	}
	if log := c.BrokerLog(1, 5); len(strings.Split(log, "\n")) != 5 {
		t.Errorf("log of 5 lines expected: %q", log)
	}
}

func TestSecureListeners(t *testing.T) {
	c := New(t, Options{
		Users: map[string]string{"alice": "wonder land"},
		Listeners: []Listener{
			{Name: "SECURE", TLS: true, Mechanisms: []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}},
			{Name: "MUTUAL", TLS: true, ClientAuth: true},
			{Name: "OPEN", Mechanisms: []string{"PLAIN"}},
		},
	})
	certs := c.Certificates()
	pool := func(file string) *tls.Config {
		pem, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		return &tls.Config{RootCAs: roots}
	}
	trusting, mutual := pool(certs.CAFile), pool(certs.CAFile)
	pair, err := tls.LoadX509KeyPair(certs.ClientCertFile, certs.ClientKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	mutual.Certificates = []tls.Certificate{pair}
	token := func(header, claims string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + "."
	}
	unsecured := token(`{"alg":"none"}`, `{"sub":"alice","iat":1,"exp":4102444800}`)
	good := plain.Auth{User: "alice", Pass: "wonder land"}
	bad := plain.Auth{User: "alice", Pass: "wrong"}

	tests := []struct {
		name, listener string
		tls            *tls.Config
		sasl           sasl.Mechanism
		fails          bool
	}{
		{"PLAIN", "SECURE", trusting, good.AsMechanism(), false},
		{"PLAIN, wrong password", "SECURE", trusting, bad.AsMechanism(), true},
		{"SCRAM-SHA-256", "SECURE", trusting, scram.Auth{User: "alice", Pass: "wonder land"}.AsSha256Mechanism(), false},
		{"SCRAM-SHA-512", "SECURE", trusting, scram.Auth{User: "alice", Pass: "wonder land"}.AsSha512Mechanism(), false},
		{"SCRAM-SHA-512, wrong password", "SECURE", trusting, scram.Auth{User: "alice", Pass: "x"}.AsSha512Mechanism(), true},
		{"OAUTHBEARER", "SECURE", trusting, oauth.Auth{Token: unsecured}.AsMechanism(), false},
		{"OAUTHBEARER, garbage", "SECURE", trusting, oauth.Auth{Token: "x"}.AsMechanism(), true},
		{"another authority", "SECURE", pool(certs.OtherCAFile), good.AsMechanism(), true},
		{"client certificate", "MUTUAL", mutual, nil, false},
		{"no client certificate", "MUTUAL", trusting, nil, true},
		{"PLAIN without TLS", "OPEN", nil, good.AsMechanism(), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			opts := []kgo.Opt{kgo.SeedBrokers(c.BootstrapOf(tt.listener)...), kgo.RequestRetries(0), kgo.DialTLSConfig(tt.tls)}
			if tt.sasl != nil {
				opts = append(opts, kgo.SASL(tt.sasl))
			}
			client, err := kgo.NewClient(opts...)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err = kadm.NewClient(client).BrokerMetadata(ctx)
			if failed := err != nil; failed != tt.fails {
				t.Errorf("error %v, want one: %v", err, tt.fails)
			}
		})
	}
}

// A broker that cannot start says why at once: it is not waited for until the timeout.
func TestBadPropertiesShowTheLog(t *testing.T) {
	libs := findLibs(t, Version)
	_, err := start(t.Context(), libs, Options{Properties: map[string]string{"compression.type": "none-such"}})
	if err == nil || !strings.Contains(err.Error(), "none-such") {
		t.Errorf("error %v, want one with the broker's own words about none-such", err)
	}
}

func TestFolderIsRemoved(t *testing.T) {
	libs := findLibs(t, Version)
	c, err := start(t.Context(), libs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	pid := c.brokers[0].cmd.Process.Pid
	c.close()
	if exists(c.dir) {
		t.Errorf("folder %s is still there", c.dir)
	}
	if exists(filepath.Join("/proc", strconv.Itoa(pid))) {
		t.Errorf("process %d is still there", pid)
	}
}
