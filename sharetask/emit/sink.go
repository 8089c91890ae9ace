package emit

import (
	"context"
	"errors"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

// Committer makes what sinks emit durable. It belongs to one sink and is used
// from one goroutine.
type Committer interface {
	// Open connects it. An error leaves nothing open.
	Open(ctx context.Context) error

	// Commit makes what the accepted of results emit durable, and changes the
	// results of records of which that cannot be said, or that need another
	// put: Retry, Reject, or the zero result where it is not known. batch and
	// results go together. It returns by ctx's end and a short grace, and keeps
	// nothing of either.
	Commit(ctx context.Context, batch []pluginapi.Record, results []pluginapi.Result) error

	// Close disconnects it.
	Close(ctx context.Context) error
}

// Sink is a sink that emits, and what makes it durable, as one sink.
type Sink struct {
	sharetask.Sink
	committer Committer
	open      bool
}

var _ sharetask.Sink = (*Sink)(nil)

// New joins the two. The committer is opened and closed with the sink.
func New(sink sharetask.Sink, c Committer) *Sink { return &Sink{Sink: sink, committer: c} }

// Start starts the sink and opens the committer.
func (s *Sink) Start(ctx context.Context) error {
	if err := s.Sink.Start(ctx); err != nil {
		return err
	}
	if err := s.committer.Open(ctx); err != nil {
		return err
	}
	s.open = true
	return nil
}

// Put puts batch, and produces what it became. An error of the sink comes with
// the results that are known: what these emit is produced all the same.
func (s *Sink) Put(ctx context.Context, batch []pluginapi.Record, results []pluginapi.Result) error {
	err := s.Sink.Put(ctx, batch, results)
	// What came in time is produced in the time of the put. A sink that used it
	// up left nothing for this, and its results are put again.
	err = errors.Join(err, s.committer.Commit(ctx, batch, results))
	for i := range results {
		results[i].Emitted = nil
	}
	return err
}

// Stop closes the committer and stops the sink.
func (s *Sink) Stop(ctx context.Context) error {
	var err error
	if s.open {
		s.open = false
		err = s.committer.Close(ctx)
	}
	return errors.Join(s.Sink.Stop(ctx), err)
}
