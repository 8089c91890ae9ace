package emit

import (
	"fmt"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/pluginapi"
)

// Encoder makes the bytes of a record's key, value and header values: the
// reverse of a connector's converters. Bytes stay as they are, and nil stands
// for what is absent. It is used from several goroutines.
type Encoder interface {
	EncodeKey(d pluginapi.Datum) ([]byte, error)
	EncodeValue(d pluginapi.Datum) ([]byte, error)
	EncodeHeader(d pluginapi.Datum) ([]byte, error)
}

// Unplaced is the partition of a record whose partition is the partitioner's to
// choose.
const Unplaced = -1

// Out is a record to produce, and which of a put's records it came from.
type Out struct {
	Record *kgo.Record
	From   int
}

// Records makes what the accepted of results emit, in memory of its own. Records
// that emit what cannot be encoded are rejected.
func Records(results []pluginapi.Result, enc Encoder) []Out {
	n := 0
	for i := range results {
		if results[i].Outcome == pluginapi.Accept {
			n += len(results[i].Emitted)
		}
	}
	if n == 0 {
		return nil
	}
	outs, records := make([]Out, 0, n), make([]kgo.Record, 0, n)
	var mem memory
	for i := range results {
		if results[i].Outcome != pluginapi.Accept {
			continue
		}
		first := len(records)
		for k := range results[i].Emitted {
			records = records[:len(records)+1]
			if err := encode(&records[len(records)-1], &results[i].Emitted[k], enc, &mem); err != nil {
				results[i] = pluginapi.Rejected("encode", err.Error())
				records = records[:first]
				break
			}
		}
		for k := first; k < len(records); k++ {
			outs = append(outs, Out{Record: &records[k], From: i})
		}
	}
	return outs
}

func encode(r *kgo.Record, e *pluginapi.Emitted, enc Encoder, mem *memory) error {
	*r = kgo.Record{Topic: strings.Clone(e.Topic), Partition: Unplaced, Timestamp: e.Timestamp}
	if e.Topic == "" {
		return fmt.Errorf("emitted record without a topic")
	}
	if e.Placed {
		r.Partition = e.Partition
	}
	key, err := enc.EncodeKey(e.Key)
	if err != nil {
		return fmt.Errorf("emitted key: %w", err)
	}
	value, err := enc.EncodeValue(e.Value)
	if err != nil {
		return fmt.Errorf("emitted value: %w", err)
	}
	r.Key, r.Value = mem.copy(key), mem.copy(value)
	if len(e.Headers) > 0 {
		r.Headers = make([]kgo.RecordHeader, len(e.Headers))
	}
	for i := range e.Headers {
		h := &e.Headers[i]
		b, err := enc.EncodeHeader(h.Value)
		if err != nil {
			return fmt.Errorf("emitted header %q: %w", h.Key, err)
		}
		r.Headers[i] = kgo.RecordHeader{Key: strings.Clone(h.Key), Value: mem.copy(b)}
	}
	return nil
}

// memory keeps copies of many small pieces in few large ones: a client may hold
// on to a record when its put is over and the source's memory is used again.
type memory struct{ free []byte }

const memoryPiece = 256 << 10

// copy returns a copy of b, nil for nil.
func (m *memory) copy(b []byte) []byte {
	if b == nil {
		return nil
	}
	if len(b) > cap(m.free)-len(m.free) {
		m.free = make([]byte, 0, max(memoryPiece, len(b)))
	}
	at := len(m.free)
	m.free = append(m.free, b...)
	return m.free[at:len(m.free):len(m.free)]
}

// Partitioner keeps a record on the partition it has. Without one the key's hash
// chooses, as in Kafka's own clients, and without a key each batch goes to
// another.
func Partitioner() kgo.Partitioner { return partitioner{kgo.StickyKeyPartitioner(nil)} }

type partitioner struct{ byKey kgo.Partitioner }

// ForTopic implements [kgo.Partitioner].
func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.byKey.ForTopic(topic)}
}

type topicPartitioner struct{ kgo.TopicPartitioner }

// RequiresConsistency implements [kgo.TopicPartitioner].
func (p topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition != Unplaced || p.TopicPartitioner.RequiresConsistency(r)
}

// Partition implements [kgo.TopicPartitioner]. A partition that the topic does
// not have fails the record.
func (p topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Partition == Unplaced {
		return p.TopicPartitioner.Partition(r, n)
	}
	return int(r.Partition)
}

// OnNewBatch implements [kgo.TopicPartitionerOnNewBatch].
func (p topicPartitioner) OnNewBatch() {
	if on, ok := p.TopicPartitioner.(kgo.TopicPartitionerOnNewBatch); ok {
		on.OnNewBatch()
	}
}

// Steady is a [Partitioner] that sends all that has no key to one partition of a
// topic until Turn: in a transaction each partition costs the brokers several
// writes of their own. It is used by one client, and Turn while nothing is being
// produced.
type Steady struct {
	mu     sync.Mutex
	topics []topicPartitioner
}

// ForTopic implements [kgo.Partitioner].
func (s *Steady) ForTopic(topic string) kgo.TopicPartitioner {
	p := topicPartitioner{kgo.StickyKeyPartitioner(nil).ForTopic(topic)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.topics = append(s.topics, p)
	return struct{ kgo.TopicPartitioner }{p} // Without OnNewBatch.
}

// Turn chooses other partitions.
func (s *Steady) Turn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.topics {
		p.OnNewBatch()
	}
}
