package exactlyonce

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask/emit"
	"github.com/sluicehq/sluice/sharetask/exactlyonce/intent"
)

// codeTransaction is the code of records whose transaction was not committed, as
// far as is known.
const codeTransaction = "transaction"

// Committer is the [emit.Committer] that writes what a sink emits exactly once.
type Committer struct{ writer writer }

var _ emit.Committer = (*Committer)(nil)

// Committer returns the committer of one sink. name tells it from the others of
// the worker, and is the same after a restart.
func (g *Group) Committer(name string) *Committer {
	return &Committer{writer{group: g, id: g.opts.Writers + "-" + name}}
}

// Open ends what a writer of the same name left open.
func (c *Committer) Open(ctx context.Context) error { return c.writer.open(ctx) }

// Close drops the connections. What is open then is ended by the next of its name,
// by a writer that it holds up, or by time.
func (c *Committer) Close(context.Context) error {
	c.writer.close()
	return nil
}

// Commit writes what the accepted of results emit, in a transaction for each source
// partition. Records that emit nothing need none. What another writer was quicker
// with stays accepted.
func (c *Committer) Commit(ctx context.Context, batch []pluginapi.Record, results []pluginapi.Result) error {
	outs := emit.Records(results, c.writer.group.opts.Encoder)
	bySource := map[intent.Source][]*item{}
	var sources []intent.Source
	for _, o := range outs {
		r := &batch[o.From]
		of := intent.Source{TopicID: r.TopicID, Partition: r.Partition}
		items, known := bySource[of]
		if !known {
			sources = append(sources, of)
		}
		if n := len(items); n == 0 || items[n-1].from != o.From {
			items = append(items, &item{offset: r.Offset, from: o.From})
		}
		items[len(items)-1].outs = append(items[len(items)-1].outs, o.Record)
		bySource[of] = items
	}
	var fatal error
	for _, of := range sources {
		items := bySource[of]
		slices.SortStableFunc(items, func(a, b *item) int { return cmp.Compare(a.offset, b.offset) })
		switch {
		case fatal != nil:
			fail(items, fatal)
		case of.TopicID == [16]byte{}:
			fail(items, errors.New("the id of its topic is not known"))
		case ctx.Err() != nil:
			fail(items, context.Cause(ctx))
		default:
			var e *pluginapi.Error
			if err := c.writer.write(ctx, of, items); errors.As(err, &e) && e.Class == pluginapi.Fatal {
				fatal = err
			}
		}
		for _, i := range items {
			if i.err != nil {
				results[i.from] = result(i.err)
			}
		}
	}
	return fatal
}

// result returns the result of a record that is not known to be written.
func result(err error) pluginapi.Result {
	var produce *emit.ProduceError
	var aborted *abortedError
	switch {
	case errors.As(err, &produce):
		return emit.Failure(produce.Topic, produce.Err)
	case errors.As(err, &aborted):
		return pluginapi.Retried(&pluginapi.Error{Class: pluginapi.Transient, Code: codeTransaction, Message: err.Error()})
	default:
		return pluginapi.Retried(&pluginapi.Error{Class: pluginapi.Unavailable, Code: codeTransaction, Message: err.Error()})
	}
}
