package sinktest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// records returns n records with ids "PREFIX-0" and so on, each with pad bytes
// of padding.
func (target *Target) records(prefix string, n, pad int) []pluginapi.Record {
	out := make([]pluginapi.Record, n)
	for i := range out {
		out[i] = target.record(fmt.Sprintf("%s-%d", prefix, i), int64(i), pad)
	}
	return out
}

func (target *Target) record(id string, offset int64, pad int) pluginapi.Record {
	r := pluginapi.Record{
		Topic: "orders", TopicID: pluginapi.TopicID{1, 2, 3}, Partition: 2, Offset: offset,
		Timestamp: time.UnixMilli(1764400000000 + offset), TimestampType: pluginapi.CreateTime,
	}
	padding := strings.Repeat("p", pad)
	if target.Data {
		r.Key = stringDatum(id)
		r.Value = pluginapi.DataDatum(&data.Typed{Value: data.Map([]data.Entry{
			{Key: data.String("id"), Value: data.String(id)},
			{Key: data.String("pad"), Value: data.String(padding)},
		})})
		return r
	}
	value := data.AppendJSONString([]byte(`{"id":`), id)
	value = append(value, `,"pad":"`...)
	value = append(value, padding...)
	value = append(value, `"}`...)
	r.Key = pluginapi.BytesDatum([]byte(id))
	r.Value = pluginapi.BytesDatum(value)
	return r
}

func stringDatum(s string) pluginapi.Datum {
	return pluginapi.DataDatum(&data.Typed{Value: data.String(s)})
}

// idOf returns the id of a record the kit made, empty for one without.
func idOf(r *pluginapi.Record) string {
	if typed, ok := r.Value.Data(); ok {
		return typed.Value.Get("id").Str()
	}
	b, _ := r.Value.Bytes()
	rest, ok := bytes.CutPrefix(b, []byte(`{"id":"`))
	if !ok {
		return ""
	}
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(id)
}

// clone copies the batch and all bytes in it, so that a sink that keeps or
// changes them is found out.
func clone(batch []pluginapi.Record) []pluginapi.Record {
	out := slices.Clone(batch)
	for i := range out {
		out[i].Key = cloneDatum(out[i].Key)
		out[i].Value = cloneDatum(out[i].Value)
		out[i].Headers = slices.Clone(out[i].Headers)
		for j := range out[i].Headers {
			out[i].Headers[j].Value = cloneDatum(out[i].Headers[j].Value)
		}
	}
	return out
}

func cloneDatum(d pluginapi.Datum) pluginapi.Datum {
	if b, ok := d.Bytes(); ok {
		return pluginapi.BytesDatum(append([]byte{}, b...))
	}
	return d
}

// scramble overwrites what a sink must not keep.
func scramble(batch []pluginapi.Record) {
	for i := range batch {
		for _, d := range []pluginapi.Datum{batch[i].Key, batch[i].Value} {
			b, _ := d.Bytes()
			for j := range b {
				b[j] = '!'
			}
		}
		batch[i] = pluginapi.Record{Topic: "scrambled", Offset: -1}
	}
}

func sameDatum(a, b pluginapi.Datum) bool {
	x, isBytes := a.Bytes()
	y, areBytes := b.Bytes()
	v, isData := a.Data()
	w, areData := b.Data()
	switch {
	case isBytes != areBytes || isData != areData:
		return false
	case isData:
		return v.Value.Equal(w.Value)
	default:
		return string(x) == string(y)
	}
}

// wantUnchanged fails if the sink changed the batch it was given.
func wantUnchanged(t testing.TB, got, want []pluginapi.Record) {
	t.Helper()
	for i := range want {
		g, w := &got[i], &want[i]
		same := g.Topic == w.Topic && g.TopicID == w.TopicID && g.Partition == w.Partition && g.Offset == w.Offset &&
			g.Timestamp.Equal(w.Timestamp) && sameDatum(g.Key, w.Key) && sameDatum(g.Value, w.Value) && len(g.Headers) == len(w.Headers)
		for j := range min(len(g.Headers), len(w.Headers)) {
			same = same && g.Headers[j].Key == w.Headers[j].Key && sameDatum(g.Headers[j].Value, w.Headers[j].Value)
		}
		if !same {
			t.Errorf("the sink changed record %d of its batch", i)
			return
		}
	}
}
