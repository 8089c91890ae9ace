package devbroker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestProducedRecordsCanBeRead(t *testing.T) {
	b, err := Start(t.Context(), []string{"orders"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Produce(t.Context(), "orders", []byte("k"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Bootstrap()...), kgo.ConsumeTopics("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	fetches := cl.PollFetches(t.Context())
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	if r := fetches.Records(); len(r) != 1 || string(r[0].Value) != "v" {
		t.Errorf("got %v, want the record produced", r)
	}
}
