package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/sluicehq/sluice/internal/abi/fdpass"
	"github.com/sluicehq/sluice/internal/abi/rpc"
	"github.com/sluicehq/sluice/internal/abi/shm"
	"github.com/sluicehq/sluice/pluginapi"
)

// exitUsage is the exit code when the program cannot serve: it was not started
// by a host, or the plugin describes itself wrongly.
const exitUsage = 3

// Serve serves p to the host that started this process and returns when the
// host is done with it. Started by hand, or with a plugin that describes itself
// wrongly, it says so on standard error and exits with code 3.
//
// Call it from main, first and once: standard input, output and error belong to
// the host while it runs.
func Serve(p pluginapi.Plugin) {
	if err := prepare(&p, os.Getenv(rpc.CookieKey)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitUsage)
	}
	stdio := &stdio{out: os.Stdout, err: os.Stderr}
	watchHost(os.Getenv(rpc.LifelineKey))
	handler := newHandler(stdio.err, os.Getenv(rpc.LogLevelKey))
	srv := newServer(&p, handler)
	srv.inherit(os.Getenv)
	versioned := make(map[int]plugin.PluginSet)
	for _, v := range rpc.Versions() {
		versioned[v] = plugin.PluginSet{rpc.PluginKey: &service{server: srv}}
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{
			MagicCookieKey:   rpc.CookieKey,
			MagicCookieValue: rpc.CookieValue,
		},
		VersionedPlugins: versioned,
		Logger:           hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr, JSONFormat: true}),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts,
				grpc.ForceServerCodecV2(rpc.NewCodec()),
				grpc.Creds(rpc.PeerCredentials(stdio.restore)),
				grpc.MaxRecvMsgSize(rpc.MaxMessageBytes),
				grpc.InitialWindowSize(rpc.WindowBytes),
				grpc.InitialConnWindowSize(rpc.WindowBytes),
				grpc.WriteBufferSize(rpc.BufferBytes),
				grpc.ReadBufferSize(rpc.BufferBytes),
			)...)
		},
	})
}

// inherit takes what the host shares with this process beside the connection:
// memory, and a socket over which it passes put streams. Without either, puts go
// through gRPC.
func (s *server) inherit(getenv func(string) string) {
	log := slog.New(s.handler)
	if fd := getenv(rpc.SharedKey); fd != "" {
		shared, err := shm.Open(fd)
		if err != nil {
			log.Debug("no memory is shared with the host", "err", err)
		}
		s.shared = shared
	}
	if fd := getenv(rpc.SocketsKey); fd != "" {
		from, err := fdpass.Open(fd)
		if err != nil {
			log.Debug("no put streams are taken over sockets", "err", err)
			return
		}
		s.sockets = true
		go s.accept(log, from)
	}
}

// accept runs the put streams that the host passes, until the host is gone.
func (s *server) accept(log *slog.Logger, from *fdpass.Receiver) {
	defer from.Close()
	running := make(chan struct{}, maxInstances)
	for {
		conn, err := from.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			log.Error("a put stream was not taken", "err", err)
			continue
		}
		running <- struct{}{}
		go func() {
			defer func() { <-running }()
			rpc.ServeSocket(context.Background(), s, conn)
		}()
	}
}

// prepare checks that p can be served, and that a host asks for it.
func prepare(p *pluginapi.Plugin, cookie string) error {
	if p.New == nil {
		return errors.New("serve plugin: New is not set")
	}
	d := p.Describe()
	if err := d.Validate(); err != nil {
		return fmt.Errorf("serve plugin: %w", err)
	}
	if cookie == rpc.CookieValue {
		return nil
	}
	return fmt.Errorf(`%s %s: a sink plugin for Sluice. %s
It is started by the Sluice worker, not by hand. To use it:
  1. copy this file to a directory the worker looks in (plugin_path in its
     worker block) under the name sluice-sink-%s
  2. see its settings with: sluice plugin describe %s
  3. write a connector with: sink = "%s"`, d.Name, d.Version, d.Summary, d.Name, d.Name, d.Name)
}

// stdio holds the process's own output. go-plugin replaces it by pipes of its
// own, whose content would be lost when the process crashes; restore puts it
// back. The host takes care of either.
type stdio struct {
	out, err *os.File
	once     sync.Once
}

// restore runs on the first connection, so after go-plugin's change and before
// a sink's first method.
func (s *stdio) restore() {
	s.once.Do(func() { os.Stdout, os.Stderr = s.out, s.err })
}

// service is go-plugin's view of the gRPC service.
type service struct {
	plugin.NetRPCUnsupportedPlugin
	server *server
}

var _ plugin.GRPCPlugin = (*service)(nil)

// GRPCServer registers the service.
func (s *service) GRPCServer(_ *plugin.GRPCBroker, to *grpc.Server) error {
	rpc.Register(to, s.server)
	return nil
}

// GRPCClient is the host's side, which a plugin does not have.
func (s *service) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin is no host")
}

// watchHost ends the process when the host is gone: when the pipe named by fd,
// which the host holds open, ends; or, without one, when the parent process
// changes.
func watchHost(fd string) {
	if fd == "0" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			endWithChildren()
		}()
		return
	}
	go watchParent(os.Getppid())
}
