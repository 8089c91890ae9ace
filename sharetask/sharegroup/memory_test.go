package sharegroup

import (
	"bytes"
	"math/rand/v2"
	"runtime/debug"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/sharetask"
)

// The memory of a response is used for another one when the last of its records
// is free, and not before: of two ranges one is held back until the end.
func TestMemoryOfResponsesIsUsedAgain(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // Else it is the collector that makes memory used again.
	bootstrap, topic, group := fake(t, 2, nil)
	m := join(t, options(bootstrap, topic, group))
	defer m.leave()
	m.Request(sharetask.Room{Records: 1000, Bytes: 16 << 20})

	const rounds = 12
	random := func(i int) []byte { // Compressed, records would be in other memory.
		b := make([]byte, 100_000)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(b)
		return b
	}
	var held []*sharetask.Acquired
	memory := map[*byte]bool{}
	for i := range rounds {
		produce(t, bootstrap, topic, &kgo.Record{Value: random(i)})
		a := next[*sharetask.Acquired](m)
		value, _ := a.Records[0].Value.Bytes()
		memory[&value[0]] = true
		m.decide(a, sharetask.Accept, span(a))
		next[*sharetask.Acknowledged](m)
		if i%4 == 0 {
			held = append(held, a)
			continue
		}
		a.Free()
	}
	if len(memory) == rounds {
		t.Errorf("%d responses, %d of them not freed, were in %d pieces of memory", rounds, len(held), len(memory))
	}
	for i, a := range held {
		value, _ := a.Records[0].Value.Bytes()
		if !bytes.Equal(value, random(4*i)) {
			t.Errorf("record %d, which is held, begins with %x", 4*i, value[:8])
		}
		a.Free()
	}
}
