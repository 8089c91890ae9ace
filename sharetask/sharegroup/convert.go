package sharegroup

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

// convert returns the task's view of one partition's records. Keys, values and
// headers are the client's bytes, not copies.
func convert(tp sharetask.TopicPartition, in []*kgo.Record) (records []pluginapi.Record, counts []int16, bytes int) {
	headers := 0
	for _, r := range in {
		headers += len(r.Headers)
	}
	records = make([]pluginapi.Record, len(in))
	counts = make([]int16, len(in))
	slab := make([]pluginapi.Header, 0, headers)
	for i, r := range in {
		start := len(slab)
		bytes += len(r.Key) + len(r.Value)
		for _, h := range r.Headers {
			slab = append(slab, pluginapi.Header{Key: h.Key, Value: pluginapi.BytesDatum(h.Value)})
			bytes += len(h.Key) + len(h.Value)
		}
		out := &records[i]
		out.Topic, out.TopicID, out.Partition, out.Offset = tp.Topic, tp.TopicID, tp.Partition, r.Offset
		out.Timestamp, out.TimestampType = timestamp(r)
		out.Key, out.Value = pluginapi.BytesDatum(r.Key), pluginapi.BytesDatum(r.Value)
		if len(slab) > start {
			out.Headers = slab[start:len(slab):len(slab)]
		}
		counts[i] = int16(min(r.DeliveryCount(), math.MaxInt16)) //nolint:gosec // bounded on this line, and never negative
	}
	return records, counts, bytes
}

func timestamp(r *kgo.Record) (time.Time, pluginapi.TimestampType) {
	switch r.Attrs.TimestampType() {
	case 0:
		if r.Timestamp.UnixMilli() < 0 { // A producer that set none.
			return time.Time{}, pluginapi.NoTimestamp
		}
		return r.Timestamp, pluginapi.CreateTime
	case 1:
		return r.Timestamp, pluginapi.LogAppendTime
	default:
		return time.Time{}, pluginapi.NoTimestamp
	}
}
