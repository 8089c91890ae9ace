package abi

import (
	"fmt"
	"maps"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

func diffRecords(got, want []pluginapi.Record) error {
	if len(got) != len(want) {
		return fmt.Errorf("got %d records, want %d", len(got), len(want))
	}
	for i := range want {
		if err := diffRecord(&got[i], &want[i]); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
	}
	return nil
}

func diffRecord(got, want *pluginapi.Record) error {
	if got.Topic != want.Topic || got.TopicID != want.TopicID || got.Partition != want.Partition || got.Offset != want.Offset ||
		!got.Timestamp.Equal(want.Timestamp) || got.TimestampType != want.TimestampType {
		return fmt.Errorf("got %+v, want %+v", got, want)
	}
	if err := diffDatum(got.Key, want.Key); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if err := diffDatum(got.Value, want.Value); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	if len(got.Headers) != len(want.Headers) {
		return fmt.Errorf("got %d headers, want %d", len(got.Headers), len(want.Headers))
	}
	for i := range want.Headers {
		if got.Headers[i].Key != want.Headers[i].Key {
			return fmt.Errorf("header %d: got %q, want %q", i, got.Headers[i].Key, want.Headers[i].Key)
		}
		if err := diffDatum(got.Headers[i].Value, want.Headers[i].Value); err != nil {
			return fmt.Errorf("header %d: %w", i, err)
		}
	}
	return nil
}

func diffEmitted(got, want []pluginapi.Emitted) error {
	if len(got) != len(want) {
		return fmt.Errorf("got %d emitted records, want %d", len(got), len(want))
	}
	for i := range want {
		g, w := &got[i], &want[i]
		if g.Placed != w.Placed {
			return fmt.Errorf("emitted record %d: got %+v, want %+v", i, g, w)
		}
		asRecord := func(e *pluginapi.Emitted) *pluginapi.Record {
			return &pluginapi.Record{Topic: e.Topic, Partition: e.Partition, Timestamp: e.Timestamp, Key: e.Key, Value: e.Value, Headers: e.Headers}
		}
		if err := diffRecord(asRecord(g), asRecord(w)); err != nil {
			return fmt.Errorf("emitted record %d: %w", i, err)
		}
	}
	return nil
}

func diffDatum(got, want pluginapi.Datum) error {
	gotBytes, isBytes := got.Bytes()
	wantBytes, wantsBytes := want.Bytes()
	gotData, isData := got.Data()
	wantData, wantsData := want.Data()
	switch {
	case isBytes != wantsBytes || isData != wantsData:
		return fmt.Errorf("got bytes %t and data %t, want %t and %t", isBytes, isData, wantsBytes, wantsData)
	case string(gotBytes) != string(wantBytes):
		return fmt.Errorf("got %x, want %x", gotBytes, wantBytes)
	case !wantsData:
		return nil
	case !gotData.Value.Equal(wantData.Value):
		return fmt.Errorf("got %s %s, want %s %s", gotData.Value.Kind(), gotData.Value.AppendJSON(nil),
			wantData.Value.Kind(), wantData.Value.AppendJSON(nil))
	}
	return diffSchema(gotData.Schema, schemaOf(wantData))
}

func diffSchema(got, want *data.Schema) error {
	switch {
	case (got == nil) != (want == nil):
		return fmt.Errorf("got schema %v, want %v", got, want)
	case want == nil:
		return nil
	case got.Kind != want.Kind || got.Name != want.Name || got.Version != want.Version || got.Doc != want.Doc ||
		got.Optional != want.Optional || !got.Default.Equal(want.Default) || !maps.Equal(got.Params, want.Params) ||
		len(got.Fields) != len(want.Fields):
		return fmt.Errorf("got schema %+v, want %+v", got, want)
	}
	for i := range want.Fields {
		if got.Fields[i].Name != want.Fields[i].Name {
			return fmt.Errorf("got field %q, want %q", got.Fields[i].Name, want.Fields[i].Name)
		}
		if err := diffSchema(got.Fields[i].Schema, want.Fields[i].Schema); err != nil {
			return err
		}
	}
	if err := diffSchema(got.Key, want.Key); err != nil {
		return err
	}
	return diffSchema(got.Elem, want.Elem)
}
