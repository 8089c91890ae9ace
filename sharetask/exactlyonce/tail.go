package exactlyonce

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/sharetask/exactlyonce/intent"
)

// tailMaxWait is how long a broker may hold a fetch of the ledger that finds
// nothing.
const tailMaxWait = 2 * time.Second

// brokenError is an error of the ledger that reading it again does not mend.
type brokenError struct{ err error }

// Error returns the cause's text.
func (e *brokenError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *brokenError) Unwrap() error { return e.err }

// tail reads the whole ledger, from its beginning, everything that is written with
// all markers, and knows what became of every claim.
type tail struct {
	topic      string
	partitions int32
	client     *kgo.Client
	log        *slog.Logger

	mu      sync.Mutex
	parts   []intent.Ledger           // By ledger partition: as many as topic has. Guarded by mu.
	own     map[string]*intent.Intent // Claims of this worker by id; nil until they come by. Guarded by mu.
	late    map[string]bool           // Those of own that nobody waits for any more. Guarded by mu.
	writers map[writerIn]bool         // Writers of this worker of which claims came by. Guarded by mu.
	changed chan struct{}             // Closed when something came. Guarded by mu.
	err     error                     // Why nothing comes any more. Guarded by mu.
	shared  time.Time                 // When it was last said that a name is used twice. Guarded by mu.
}

// writerIn is a writer in one ledger partition.
type writerIn struct {
	writer    string
	partition int32
}

func newTail(g *Group) (*tail, error) {
	t := &tail{
		topic: g.opts.Topic, partitions: g.opts.Partitions, log: g.log, parts: make([]intent.Ledger, g.opts.Partitions),
		own: map[string]*intent.Intent{}, late: map[string]bool{}, writers: map[writerIn]bool{}, changed: make(chan struct{}),
	}
	at := map[int32]kgo.Offset{}
	for p := range t.partitions {
		at[p] = kgo.NewOffset().AtStart()
	}
	var err error
	t.client, err = kgo.NewClient(append(slices.Clone(g.conn),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.topic: at}),
		kgo.KeepControlRecords(), // Markers are what decides.
		kgo.FetchIsolationLevel(kgo.ReadUncommitted()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // Never jump: an error instead.
		kgo.FetchMaxWait(tailMaxWait),
	)...)
	return t, err
}

// run reads until ctx ends, or something is in doubt.
func (t *tail) run(ctx context.Context) error {
	for {
		fetches := t.client.PollFetches(ctx)
		var err error
		fetches.EachError(func(_ string, partition int32, e error) {
			if err == nil {
				err = fmt.Errorf("read ledger partition %d: %w", partition, e)
			}
		})
		t.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			if err == nil {
				err = t.apply(r)
			}
		})
		t.err = err
		close(t.changed)
		t.changed = make(chan struct{})
		t.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// apply enters one record. t.mu must be held.
func (t *tail) apply(r *kgo.Record) error {
	if r.Partition >= t.partitions {
		return &brokenError{fmt.Errorf("ledger topic %q has more partitions than the %d it was made with: claims of one source partition may be in two of them. "+
			"Stop all workers of the group, delete the topic once nothing is left to do, and start again", t.topic, t.partitions)}
	}
	part := &t.parts[r.Partition]
	if r.Attrs.IsControl() {
		return t.marker(part, r)
	}
	c, err := intent.ParseClaim(r.Value)
	if err == nil && (!r.Attrs.IsTransactional() || c.Of != t.partitions || partitionOf(c.Source, t.partitions) != r.Partition) {
		err = fmt.Errorf("%w of this ledger", intent.ErrClaim)
	}
	if err != nil {
		return &brokenError{fmt.Errorf("ledger topic %q, partition %d, offset %d: %w: something else writes to the topic, or a newer version of Sluice does", t.topic, r.Partition, r.Offset, err)}
	}
	in, err := part.Claimed(r.Offset, r.ProducerID, r.ProducerEpoch, c)
	if err != nil {
		return err
	}
	at := writerIn{c.Writer, r.Partition}
	if _, ours := t.own[c.ID]; ours {
		t.own[c.ID], t.writers[at] = in, true
		if t.late[c.ID] {
			delete(t.own, c.ID)
			delete(t.late, c.ID)
		}
	} else if t.writers[at] && time.Since(t.shared) > time.Minute {
		t.shared = time.Now()
		t.log.Error("another worker writes under this worker's name, and each ends the other's transactions: give every worker a worker.id of its own",
			"transactional_id", c.Writer)
	}
	return nil
}

// marker enters the end of a transaction.
func (t *tail) marker(part *intent.Ledger, r *kgo.Record) error {
	const abort, commit = 0, 1
	kind := -1
	if len(r.Key) >= 4 {
		kind = int(binary.BigEndian.Uint16(r.Key[2:])) // Behind the version.
	}
	if kind != abort && kind != commit {
		return part.Skipped(r.Offset)
	}
	_, err := part.Ended(r.Offset, r.ProducerID, kind == commit)
	var clash *intent.ClashError
	if errors.As(err, &clash) {
		if unvalidated() { // It goes on as if the ledger did not tell.
			t.log.Error("something is written twice", "err", err)
			return nil
		}
		return &brokenError{err}
	}
	return err
}

// wait returns when ready, which is called with t.mu held, is true.
func (t *tail) wait(ctx context.Context, ready func() bool) error {
	for {
		t.mu.Lock()
		err, ok, changed := t.err, ready(), t.changed
		t.mu.Unlock()
		switch {
		case ok:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// expect announces a claim of ours, forgotten ends that. One that may still come
// is known to be ours for as long as there are not too many.
func (t *tail) expect(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.own[id] = nil
}

func (t *tail) forgotten(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.own[id] == nil && len(t.late) < maxLate {
		t.late[id] = true
		return
	}
	delete(t.own, id)
}

// maxLate bounds the claims that may come though nobody waits for them.
const maxLate = 10_000

// came waits for a claim of ours to come by, and with it all that is before it.
func (t *tail) came(ctx context.Context, id string) (in *intent.Intent, err error) {
	err = t.wait(ctx, func() bool {
		in = t.own[id]
		return in != nil
	})
	return in, err
}

// fate waits for the end of a claim's transaction.
func (t *tail) fate(ctx context.Context, in *intent.Intent) (fate intent.Fate, err error) {
	err = t.wait(ctx, func() bool {
		fate = in.Fate
		return fate != intent.Undecided
	})
	return fate, err
}

// judge says whether a claim may be committed; changed is closed when that may be
// another.
func (t *tail) judge(in *intent.Intent) (v intent.Verdict, fate intent.Fate, changed <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return v, 0, nil, t.err
	}
	return t.parts[partitionOf(in.Source, t.partitions)].Judge(in), in.Fate, t.changed, nil
}

// done reports whether an offset is known to be written.
func (t *tail) done(of intent.Source, offset int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.parts[partitionOf(of, t.partitions)].Done(of, offset)
}

// forget drops what is known of offsets far below the positions, and deletes what
// the ledger has of nothing else.
func (t *tail) forget(ctx context.Context, positions map[intent.Source]int64) error {
	t.mu.Lock()
	for of, position := range positions {
		t.parts[partitionOf(of, t.partitions)].Forget(of, position-forgetMargin)
	}
	var offsets kadm.Offsets
	for p := range t.partitions {
		if needed := t.parts[p].Needed(); needed > 0 {
			offsets.AddOffset(t.topic, p, needed, -1)
		}
	}
	t.mu.Unlock()
	deleted, err := kadm.NewClient(t.client).DeleteRecords(ctx, offsets)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		return fmt.Errorf("delete records of the ledger: %w", err)
	}
	return nil
}

// partitionOf returns the ledger partition of a source partition's claims.
func partitionOf(of intent.Source, partitions int32) int32 {
	h := fnv.New32a()
	_, _ = h.Write(of.TopicID[:])
	return int32((int64(h.Sum32()) + int64(of.Partition)) % int64(partitions)) //nolint:gosec // Less than partitions.
}
