package abi

import (
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// emittedSchemas returns the schemas of the records that results emit.
func emittedSchemas(results []pluginapi.Result) schemaTable {
	var t schemaTable
	for i := range results {
		for j := range results[i].Emitted {
			e := &results[i].Emitted[j]
			t.addDatum(e.Key)
			t.addDatum(e.Value)
			for k := range e.Headers {
				t.addDatum(e.Headers[k].Value)
			}
		}
	}
	return t
}

// elements returns how many elements the schemas of an answer add to it.
func (t *schemaTable) elements() int { return min(len(t.list), 1) }

// appendEmitted appends records to produce.
func appendEmitted(dst []byte, list []pluginapi.Emitted, schemas *schemaTable) []byte {
	dst = appendArray(dst, len(list))
	for i := range list {
		e := &list[i]
		n := 5
		if len(e.Headers) > 0 {
			n = 6
		}
		dst = appendText(appendArray(dst, n), e.Topic)
		if e.Placed {
			dst = appendInt(dst, int64(e.Partition))
		} else {
			dst = append(dst, itemNull)
		}
		if e.Timestamp.IsZero() {
			dst = append(dst, itemNull)
		} else {
			dst = appendInt(dst, e.Timestamp.UnixMilli())
		}
		dst = appendDatum(dst, e.Key, schemas)
		dst = appendDatum(dst, e.Value, schemas)
		if n > 5 {
			dst = appendHeaders(dst, e.Headers, schemas)
		}
	}
	return dst
}

// emitted reads records to produce. They alias the frame.
func (d *Decoder) emitted(r *reader) []pluginapi.Emitted {
	n := r.array()
	if n == 0 {
		return nil
	}
	list := make([]pluginapi.Emitted, 0, min(n, firstRoom))
	for i := 0; i < n && r.err == nil; i++ {
		list = append(list, pluginapi.Emitted{})
		d.emit(r, &list[len(list)-1])
	}
	return list
}

func (d *Decoder) emit(r *reader, e *pluginapi.Emitted) {
	n := r.array()
	if r.err == nil && n == 0 {
		r.fail("emitted record without a topic")
	}
	e.Topic = r.text()
	if n > 1 && !r.null() {
		p := r.int()
		if p < 0 || p != int64(int32(p)) {
			r.fail("partition %d is not one", p)
		}
		e.Partition, e.Placed = int32(p), true
	}
	if n > 2 && !r.null() {
		e.Timestamp = time.UnixMilli(r.int()).UTC()
	}
	if n > 3 {
		e.Key = d.datum(r)
	}
	if n > 4 {
		e.Value = d.datum(r)
	}
	if n > 5 {
		e.Headers = d.readHeaders(r)
	}
	r.skipFrom(6, n)
}
