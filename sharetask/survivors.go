package sharetask

import (
	"unsafe"

	"github.com/sluicehq/sluice/pluginapi"
)

// memory is how many bytes stay in use while any of d's records is.
func (d *delivery) memory() int { return max(d.Memory, d.Bytes) }

// saveSurvivors copies the records of spans, which wait to be put again, into
// memory of their own where they are less than a quarter of what they keep in
// use: a few slow records must not hold on to everything that came with them.
// The spans are made to refer to the copies.
func (l *ledger) saveSurvivors(spans []againSpan) {
	for len(spans) > 0 {
		d, n, bytes := spans[0].d, 0, 0
		for n < len(spans) && spans[n].d == d {
			for i := spans[n].lo; i < spans[n].hi; i++ {
				bytes += RecordBytes(&d.Records[i])
			}
			n++
		}
		if bytes < d.memory()/4 {
			l.detach(d, spans[:n], bytes)
		}
		spans = spans[n:]
	}
}

// detach makes a delivery of its own of records of d.
func (l *ledger) detach(d *delivery, spans []againSpan, bytes int) {
	n := 0
	for _, s := range spans {
		n += int(s.hi - s.lo)
	}
	ev, counts := *d.Acquired, []int16(nil)
	ev.Records, ev.Bytes, ev.Memory, ev.Free = make([]pluginapi.Record, 0, n), bytes, bytes, nil
	if d.DeliveryCounts != nil {
		ev.DeliveryCounts, counts = make([]int16, 0, n), make([]int16, 0, n)
	}
	if d.Origins != nil {
		ev.Origins = make([]Origin, 0, n)
	}
	own := &delivery{Acquired: &ev, slots: make([]slot, 0, n), open: n, since: d.since}
	c := copier{make([]byte, 0, bytes)}
	for k := range spans {
		s := &spans[k]
		at := int32(len(ev.Records))
		for i := s.lo; i < s.hi; i++ {
			if tr := d.troubles[i]; tr != nil {
				if own.troubles == nil {
					own.troubles = make(map[int32]*trouble, n)
				}
				own.troubles[int32(len(ev.Records))] = tr
				delete(d.troubles, i)
			}
			ev.Records = append(ev.Records, c.record(&d.Records[i]))
			if d.DeliveryCounts != nil {
				ev.DeliveryCounts, counts = append(ev.DeliveryCounts, d.DeliveryCounts[i]), append(counts, d.counts[i])
			}
			if d.Origins != nil {
				ev.Origins = append(ev.Origins, d.Origins[i])
			}
			own.slots = append(own.slots, d.slots[i])
			d.slots[i].state = slotDone
		}
		s.span = span{d: own, lo: at, hi: int32(len(ev.Records))}
	}
	own.counts = counts
	p := l.partitions[d.TopicPartition]
	p.deliveries = append(p.deliveries, own)
	l.bytes += bytes
	if own.Origins != nil {
		l.parkedSize += bytes
	}
	l.count(own, n)
	l.close(d, n)
}

// copier copies records into one block.
type copier struct{ block []byte }

func (c *copier) record(r *pluginapi.Record) pluginapi.Record {
	out := *r
	out.Key, out.Value = c.datum(r.Key), c.datum(r.Value)
	if len(r.Headers) > 0 {
		out.Headers = make([]pluginapi.Header, len(r.Headers))
		for i, h := range r.Headers {
			out.Headers[i] = pluginapi.Header{Key: c.text(h.Key), Value: c.datum(h.Value)}
		}
	}
	return out
}

func (c *copier) datum(d pluginapi.Datum) pluginapi.Datum {
	b, ok := d.Bytes()
	if !ok {
		return d // Absent: what a source delivers is bytes.
	}
	return pluginapi.BytesDatum(c.bytes(b))
}

func (c *copier) bytes(b []byte) []byte {
	if b == nil {
		return nil
	}
	at := len(c.block)
	c.block = append(c.block, b...)
	return c.block[at:len(c.block):len(c.block)]
}

func (c *copier) text(s string) string {
	if s == "" {
		return ""
	}
	b := c.bytes(unsafe.Slice(unsafe.StringData(s), len(s)))
	return unsafe.String(unsafe.SliceData(b), len(b))
}
