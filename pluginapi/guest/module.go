package guest

import (
	"context"
	"errors"
	"log/slog"

	"github.com/sluicehq/sluice/internal/abi"
	"github.com/sluicehq/sluice/internal/abi/invoke"
	"github.com/sluicehq/sluice/pluginapi"
)

// host is what a module may call. On wasip1 these are the imports.
type host struct {
	log     func(level int32, line string)
	results func(frame []byte)
	http    func(request []byte) (answer []byte)
}

// module is a plugin behind its exports: frames in, frames out. It lives as
// long as the module's instance and is called from one goroutine. What its
// methods return is good until the next call.
type module struct {
	host   host
	plugin pluginapi.Plugin
	sink   pluginapi.Sink // Nil before start and after stop.
	dec    abi.Decoder
	out    []byte
}

func (m *module) describe() []byte {
	d := m.plugin.Describe()
	m.out = abi.AppendDescription(m.out[:0], &d)
	return m.out
}

func (m *module) start(frame []byte) []byte {
	cfg, err := abi.DecodeStart(frame, m.plugin.Settings)
	if err != nil {
		return m.answer(pluginapi.NewError(pluginapi.Invalid, "abi", err.Error()))
	}
	cfg.Logger = slog.New(&logHandler{log: m.host.log})
	m.sink = m.plugin.New()
	return m.answer(invoke.Start(context.Background(), m.sink, cfg))
}

func (m *module) check() []byte {
	if m.sink == nil {
		return m.answer(nil)
	}
	return m.answer(invoke.Check(context.Background(), m.sink))
}

func (m *module) stop() []byte {
	if m.sink == nil {
		return m.answer(nil)
	}
	err := invoke.Stop(context.Background(), m.sink)
	m.sink = nil
	return m.answer(err)
}

func (m *module) answer(err error) []byte {
	m.out = abi.AppendError(m.out[:0], m.crossed(err))
	return m.out
}

// crossed returns err as it crosses the boundary. A panic is logged with its
// stack; its code tells the host that the instance is not to be used again.
func (m *module) crossed(err error) *pluginapi.Error {
	var p *invoke.PanicError
	if errors.As(err, &p) {
		m.host.log(int32(slog.LevelError), p.Error()+"\n"+string(p.Stack))
	}
	return pluginapi.AsError(err, pluginapi.NoClass)
}

func (m *module) put(frame []byte) []byte {
	header, batch, err := m.dec.PutRequest(frame)
	if err != nil {
		return m.putError(pluginapi.NewError(pluginapi.Unknown, "abi", err.Error()))
	}
	if m.sink == nil {
		return m.putError(pluginapi.NewError(pluginapi.Fatal, "abi", "put before start"))
	}
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if header.Deadline > 0 {
		ctx, cancel = context.WithTimeout(ctx, header.Deadline)
	}
	defer cancel()
	results, err := invoke.Put(ctx, m.sink, batch, func(first int, results []pluginapi.Result) {
		m.host.results(abi.AppendPutResponse(nil, true, first, results))
	})
	switch {
	case err != nil:
		return m.putError(err)
	case results == nil: // All was reported.
		m.out = abi.AppendPutResponse(m.out[:0], false, len(batch), nil)
	default:
		m.out = abi.AppendPutResponse(m.out[:0], false, 0, results)
	}
	return m.out
}

func (m *module) putError(err error) []byte {
	m.out = abi.AppendPutError(m.out[:0], m.crossed(err), 0, nil)
	return m.out
}
