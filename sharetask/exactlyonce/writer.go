package exactlyonce

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicehq/sluice/sharetask/emit"
	"github.com/sluicehq/sluice/sharetask/exactlyonce/intent"
)

const (
	// grace is how long an earlier claim may stay undecided before its writer is
	// fenced, and between two tries to do so.
	grace = time.Second
	// openPause is between two tries to get hold of a transactional id.
	openPause = 200 * time.Millisecond
	// metadataAge is how long the client waits before it tries a batch again that a
	// broker did not take: it asks for metadata first, at most so often. The default
	// is 5 s. Until a broker has entered a partition in a transaction, which waits for
	// the end of the last one, it turns a second batch on its way down as out of order.
	metadataAge = 100 * time.Millisecond
)

// writer owns one transactional id. It is used from one goroutine.
type writer struct {
	group  *Group
	id     string
	client *kgo.Client // Nil when there is none that can be used.
	steady *emit.Steady
}

// item is a source record, and what it became.
type item struct {
	offset int64
	from   int // Which of the caller's it is.
	outs   []*kgo.Record
	err    error
}

// abortedError is the error of records of a transaction that was ended, or may
// have been: they are put again.
type abortedError struct{ err error }

// Error returns the cause's text.
func (e *abortedError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *abortedError) Unwrap() error { return e.err }

// open gets hold of the transactional id: what a writer of that name had left open
// is ended when it returns.
func (w *writer) open(ctx context.Context) error {
	for w.client == nil {
		steady := &emit.Steady{}
		client, err := kgo.NewClient(append(append(slices.Clone(w.group.conn), emit.ClientOptions()...),
			kgo.TransactionalID(w.id), kgo.TransactionTimeout(w.group.opts.TransactionTimeout),
			kgo.MetadataMinAge(metadataAge), kgo.RecordPartitioner(steady))...)
		if err != nil {
			return err
		}
		if _, _, err = client.ProducerID(ctx); err == nil {
			w.client, w.steady = client, steady
			return nil
		}
		client.Close() // An id that failed stays so in a client.
		if !again(err) || ctx.Err() != nil {
			return fmt.Errorf("begin as transactional id %q: %w", w.id, err)
		}
		timer := time.NewTimer(openPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("begin as transactional id %q: %w", w.id, err)
		}
	}
	return nil
}

// again reports whether a transactional id may be had when it is asked for again.
func again(err error) bool {
	for _, never := range []error{
		kerr.TransactionalIDAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed, kerr.InvalidTransactionTimeout,
	} {
		if errors.Is(err, never) {
			return false
		}
	}
	return true
}

// close drops the client. A transaction that is open is ended by the next of the
// name, or by time.
func (w *writer) close() {
	if w.client != nil {
		w.client.Close()
		w.client = nil
	}
}

// outcome is how an attempt ended.
type outcome uint8

const (
	failed    outcome = iota // Not committed, as far as known.
	committed                // Committed, by this attempt.
	overtaken                // Another claim has written some of it.
	refused                  // The brokers do not take some of the records.
)

// write writes what items became, each once. It sets the error of those of which
// that is not known. A fatal error is returned.
func (w *writer) write(ctx context.Context, of intent.Source, items []*item) error {
	for len(items) > 0 {
		t, err := w.group.reader(ctx)
		if err != nil {
			fail(items, err)
			return err
		}
		items = slices.DeleteFunc(slices.Clone(items), func(i *item) bool { return t.done(of, i.offset) && !unvalidated() })
		if len(items) == 0 {
			return nil
		}
		end, err := w.attempt(ctx, t, of, items)
		switch end {
		case committed:
			return nil
		case overtaken:
			continue
		case failed:
			fail(items, err)
			return nil
		case refused:
			if len(items) == 1 {
				return nil
			}
			// Those with an error may have it from a neighbour in their batch.
			var rest []*item
			for _, i := range items {
				if i.err == nil {
					rest = append(rest, i)
					continue
				}
				if i.err = nil; ctx.Err() != nil {
					i.err = context.Cause(ctx)
				} else if err := w.write(ctx, of, []*item{i}); err != nil {
					return err
				}
			}
			items = rest
		}
	}
	return nil
}

func fail(items []*item, err error) {
	for _, i := range items {
		i.err = err
	}
}

// attempt is one transaction.
func (w *writer) attempt(ctx context.Context, t *tail, of intent.Source, items []*item) (outcome, error) {
	if err := w.open(ctx); err != nil {
		return failed, err
	}
	if err := w.client.BeginTransaction(); err != nil {
		return w.abandon(err)
	}
	w.steady.Turn()
	claim := &intent.Claim{ID: rand.Text(), Writer: w.id, Source: of, Of: t.partitions, Ranges: ranges(items)}
	t.expect(claim.ID)
	defer t.forgotten(claim.ID)
	if end, err := w.produce(ctx, t, claim, items); end != committed {
		return end, err
	}
	own, err := t.came(ctx, claim.ID)
	if err != nil {
		return w.abandon(err)
	}
	if end, err := w.validate(ctx, t, own); end != committed {
		return end, err
	}
	err = w.client.EndTransaction(ctx, kgo.TryCommit)
	if err == nil {
		return committed, nil
	}
	return w.resolve(ctx, t, own, err)
}

// abandon drops the transaction with its client.
func (w *writer) abandon(err error) (outcome, error) {
	w.close()
	return failed, &abortedError{err}
}

// produce writes outputs and claim. committed means that all is confirmed.
func (w *writer) produce(ctx context.Context, t *tail, claim *intent.Claim, items []*item) (outcome, error) {
	outs := make([]emit.Out, 0, len(items)+1)
	for n, i := range items {
		for _, r := range i.outs {
			outs = append(outs, emit.Out{Record: emit.Again(r), From: n})
		}
	}
	outs = append(outs, emit.Out{Record: &kgo.Record{Topic: t.topic, Partition: partitionOf(claim.Source, t.partitions), Value: claim.Append(nil)}, From: -1})
	// What is on its way to a broker that does not answer ends with the client only.
	stop := context.AfterFunc(ctx, w.client.Close)
	errs := emit.Produce(ctx, w.client, outs)
	if !stop() && errs == nil {
		return w.abandon(context.Cause(ctx))
	}
	var bad bool
	for n, err := range errs {
		switch i := outs[n].From; {
		case err == nil:
		case i >= 0 && emit.OfRecord(err):
			bad, items[i].err = true, err
		default:
			if i >= 0 {
				err = &emit.ProduceError{Topic: outs[n].Record.Topic, Err: err}
			}
			for _, i := range items {
				i.err = nil
			}
			return w.abandon(w.explain(err))
		}
	}
	if bad {
		for _, i := range items {
			if i.err != nil {
				i.err = &emit.ProduceError{Topic: i.outs[0].Topic, Err: i.err}
			}
		}
		if err := w.client.EndTransaction(ctx, kgo.TryAbort); err != nil {
			w.close()
		}
		return refused, nil
	}
	// All of it must be in one transaction: the one that will be ended.
	id, epoch, err := w.client.ProducerID(ctx)
	if err != nil {
		return w.abandon(err)
	}
	for n := range outs {
		if r := outs[n].Record; r.ProducerID != id || r.ProducerEpoch != epoch {
			return w.abandon(fmt.Errorf("a record was written by producer %d, epoch %d, and the transaction is of %d, %d", r.ProducerID, r.ProducerEpoch, id, epoch))
		}
	}
	return committed, nil
}

// validate waits until every earlier claim that shares offsets is decided, and
// fences those that stay. committed means that the transaction may be.
func (w *writer) validate(ctx context.Context, t *tail, own *intent.Intent) (outcome, error) {
	if unvalidated() {
		return committed, nil
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for {
		v, fate, changed, err := t.judge(own)
		switch {
		case err != nil:
			return w.abandon(err)
		case v.May:
			return committed, nil
		case fate != intent.Undecided:
			return w.abandon(w.explain(fmt.Errorf("transaction of %q was %s by the broker", w.id, fate)))
		case v.Lost:
			if err := w.client.EndTransaction(ctx, kgo.TryAbort); err != nil {
				w.close()
			}
			return overtaken, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			w.fence(ctx, t, v.Waits[0])
			timer.Reset(grace)
		case <-ctx.Done():
			return w.abandon(context.Cause(ctx))
		}
	}
}

// fence ends the transaction of an earlier claim, by its name. That it worked
// shows in the ledger.
func (w *writer) fence(ctx context.Context, t *tail, in *intent.Intent) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID = &in.Writer
	req.TransactionTimeoutMillis = int32(w.group.opts.TransactionTimeout.Milliseconds()) //nolint:gosec // Minutes at most.
	req.ProducerID, req.ProducerEpoch = -1, -1
	resp, err := req.RequestWith(ctx, t.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	w.group.log.Info("a transaction that holds others up is ended", "transactional_id", in.Writer, "source", in.Source.String(), "err", err)
}

// resolve finds out what became of a transaction whose end was not answered: a new
// producer of the name ends what is open and waits for what is being committed, and
// then its marker is in the ledger.
func (w *writer) resolve(ctx context.Context, t *tail, own *intent.Intent, cause error) (outcome, error) {
	w.close()
	if err := w.open(ctx); err != nil {
		return failed, &abortedError{fmt.Errorf("commit: %w; %w", cause, err)}
	}
	fate, err := t.fate(ctx, own)
	w.group.log.Info("the end of a transaction was not answered", "transactional_id", w.id, "it_is", fate.String(), "err", cause)
	switch {
	case err != nil:
		return failed, &abortedError{fmt.Errorf("commit: %w; %w", cause, err)}
	case fate == intent.Committed:
		return committed, nil
	default:
		return failed, &abortedError{w.explain(fmt.Errorf("commit: %w", cause))}
	}
}

// explain adds what may be behind an error of a writer that was fenced.
func (w *writer) explain(err error) error {
	for _, e := range []error{kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.InvalidProducerIDMapping} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: another writer ended the transaction of %q, since it was held up by it, or since two workers have the same worker.id", err, w.id)
		}
	}
	return err
}

// ranges returns the offsets of items, which are in order, as ranges.
func ranges(items []*item) []intent.Range {
	var out []intent.Range
	for _, i := range items {
		if n := len(out); n > 0 && out[n-1].Last+1 == i.offset {
			out[n-1].Last = i.offset
		} else {
			out = append(out, intent.Range{First: i.offset, Last: i.offset})
		}
	}
	return out
}
