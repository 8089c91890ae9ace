package consumergroup

import (
	"time"

	"github.com/IBM/sarama"

	"github.com/sluicehq/sluice/pluginapi"
)

// convert returns the task's view of messages of one partition. Keys, values
// and headers are the client's bytes, not copies.
func convert(p *partition, in []*sarama.ConsumerMessage) (records []pluginapi.Record, bytes int) {
	headers := 0
	for _, m := range in {
		headers += len(m.Headers)
	}
	records = make([]pluginapi.Record, len(in))
	slab := make([]pluginapi.Header, 0, headers)
	for i, m := range in {
		start := len(slab)
		bytes += size(m)
		for _, h := range m.Headers {
			slab = append(slab, pluginapi.Header{Key: string(h.Key), Value: pluginapi.BytesDatum(h.Value)})
		}
		out := &records[i]
		out.Topic, out.TopicID, out.Partition, out.Offset = p.Topic, p.TopicID, p.Partition, m.Offset
		if m.Timestamp.IsZero() || m.Timestamp.UnixMilli() < 0 {
			out.TimestampType = pluginapi.NoTimestamp
		} else {
			out.Timestamp, out.TimestampType = m.Timestamp.Truncate(time.Millisecond), p.timestamps
		}
		out.Key, out.Value = pluginapi.BytesDatum(m.Key), pluginapi.BytesDatum(m.Value)
		if len(slab) > start {
			out.Headers = slab[start:len(slab):len(slab)]
		}
	}
	return records, bytes
}

// size is what a message counts for in the allowance.
func size(m *sarama.ConsumerMessage) int {
	n := len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
