package sharegroup

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/sharetask"
	"github.com/sluicehq/sluice/test/kafkatest"
)

// TestKafkaAPasswordThatIsNoLongerTaken: a member whose connections live on
// acquires nothing once records come that another one lost, decides what it holds,
// and goes on when the password is taken again.
func TestKafkaAPasswordThatIsNoLongerTaken(t *testing.T) {
	t.Parallel()
	const user, password = "sluice", "the-password"
	c := kafkatest.New(t, kafkatest.Options{
		Users:     map[string]string{user: password},
		Listeners: []kafkatest.Listener{{Name: "LOGIN", Mechanisms: []string{"SCRAM-SHA-512"}}},
	})
	topic := c.Topic(t, 1)
	group := topic + "-group"
	configure(t, c.Bootstrap(), group, shortLocks())
	set := func(password string) {
		t.Helper()
		got, err := c.Admin(t).AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: user, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: password}})
		if err != nil || got.Error() != nil {
			t.Fatalf("alter password: %v, %v", err, got.Error())
		}
	}

	other := join(t, options(c.Bootstrap(), topic, group)) // Without a login.
	other.Request(sharetask.Room{Records: 5, Bytes: 1 << 20})
	produce(t, c.Bootstrap(), topic, numbered(5)...)
	lost := next[*sharetask.Acquired](other)

	opts := options(c.BootstrapOf("LOGIN"), topic, group)
	opts.Connection.SASL = &kafka.SASL{Mechanism: kafka.MechanismScramSHA512, Username: user, Password: password}
	m := join(t, opts)
	m.Request(plenty())
	produce(t, c.Bootstrap(), topic, numbered(3)...)
	first := next[*sharetask.Acquired](m)

	set("another-password")
	other.decide(lost, sharetask.Release, span(lost))
	again := next[*sharetask.Acquired](m)
	if again.DeliveryCounts[0] != 2 {
		t.Fatalf("got a delivery count of %d, want 2", again.DeliveryCounts[0])
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); ; <-tick.C {
		m.mu.Lock()
		refused := m.creds.refused
		m.mu.Unlock()
		if refused {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the credentials are not looked at")
		}
	}
	for _, a := range []*sharetask.Acquired{first, again} { // On the old connections.
		m.decide(a, sharetask.Accept, span(a))
		next[*sharetask.Acknowledged](m)
	}
	produce(t, c.Bootstrap(), topic, numbered(4)...)
	m.none(2 * time.Second)

	set(password)
	if a := next[*sharetask.Acquired](m); len(a.Records) != 4 || a.DeliveryCounts[0] != 1 {
		t.Errorf("got %d records, delivery count %d; want the 4 that came meanwhile, count 1", len(a.Records), a.DeliveryCounts[0])
	}
}
