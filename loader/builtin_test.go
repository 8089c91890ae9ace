package loader

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// fixturePlugin is a builtin that reads its records as the fixture does.
func fixturePlugin() pluginapi.Plugin {
	return pluginapi.Plugin{
		Name: "good", Version: "1.0.0", Form: pluginapi.FormBytes,
		New: func() pluginapi.Sink { return &fakeSink{} },
	}
}

type fakeSink struct {
	release chan struct{} // Ends "hang".
}

func (*fakeSink) Start(context.Context, pluginapi.Config) error { return nil }
func (*fakeSink) Stop(context.Context) error                    { return nil }

func (s *fakeSink) Put(_ context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	results := pluginapi.Accepted(len(batch))
	for i := range batch {
		value, _ := batch[i].Value.Bytes()
		switch string(value) {
		case "panic":
			panic("record")
		case "hang":
			<-s.release
		case "fewer":
			return results[1:], nil
		case "more":
			return append(results, results...), nil
		case "zero":
			results[i] = pluginapi.Result{}
		case "outcome":
			results[i].Outcome = 77
		case "reject":
			results[i] = pluginapi.Rejected("22001", "too long")
		case "error":
			return results[:i], pluginapi.NewError(pluginapi.Unavailable, "gone", "lost it")
		case "bigerror":
			return nil, pluginapi.NewError(pluginapi.Transient, "big", strings.Repeat("e", 6<<20))
		}
	}
	return results, nil
}

func TestBuiltinThatHangsIsLeftBehind(t *testing.T) {
	sink := &fakeSink{release: make(chan struct{})}
	plugin := fixturePlugin()
	plugin.New = func() pluginapi.Sink { return sink }
	c := newCatalog(t, CatalogOptions{Builtins: []pluginapi.Plugin{plugin}})
	p, err := c.Resolve(t.Context(), "good", Pin{})
	if err != nil {
		t.Fatal(err)
	}
	in := instance(t, openPlugin(t, p, Options{PutGrace: 10 * time.Millisecond}), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	results := make([]pluginapi.Result, 2)
	err = in.Put(ctx, records("x", "hang"), results)
	if codeOf(err) != "unknown/put_timeout" || !in.Gone() {
		t.Errorf("error %v, gone %v", err, in.Gone())
	}
	close(sink.release) // The sink answers now; nobody listens.
	if err := in.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if results[0].Outcome != 0 || results[1].Outcome != 0 {
		t.Errorf("results %v were written after Put returned", results)
	}
}
