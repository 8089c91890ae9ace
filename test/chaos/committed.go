package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/test/kafkatest"
)

const (
	// scanLimit bounds the reading of one topic.
	scanLimit = 3 * time.Minute

	// oddShown bounds the complaints about records that are not as they should be.
	oddShown = 10
)

// decided returns nil if no transaction is open in the topic.
func decided(ctx context.Context, admin *kadm.Client, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, adminLimit)
	defer cancel()
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err = errors.Join(err, ends.Error()); err != nil {
		return fmt.Errorf("list ends: %w", err)
	}
	stable, err := admin.ListCommittedOffsets(ctx, topic)
	if err = errors.Join(err, stable.Error()); err != nil {
		return fmt.Errorf("list what is decided: %w", err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if s, _ := stable.Lookup(topic, o.Partition); s.Offset != o.Offset && err == nil {
			err = fmt.Errorf("a transaction is open in %s %d: decided up to %d of %d", topic, o.Partition, s.Offset, o.Offset)
		}
	})
	return err
}

// scan hands the records of a topic to take, those of each partition in order. With level ReadCommitted it ends where the first open
// transaction begins; else there are records of aborted transactions too, and markers.
func (r *run) scan(topic string, level kgo.IsolationLevel, take func(*kgo.Record)) error {
	ctx, cancel := context.WithTimeout(r.tb.Context(), scanLimit)
	defer cancel()
	list := r.admin.ListEndOffsets
	committed := level == kgo.ReadCommitted()
	if committed {
		list = r.admin.ListCommittedOffsets
	}
	var starts, ends kadm.ListedOffsets
	if err := r.await(settleLimit, func() error { // Leaders may still move.
		var errs [2]error
		ends, errs[0] = list(ctx, topic)
		starts, errs[1] = r.admin.ListStartOffsets(ctx, topic)
		return errors.Join(errs[0], errs[1], ends.Error(), starts.Error())
	}); err != nil {
		return fmt.Errorf("list offsets of %s: %w", topic, err)
	}
	open, at := map[int32]int64{}, map[int32]kgo.Offset{} // The end of each partition that has not been reached.
	ends.Each(func(o kadm.ListedOffset) {
		if s, _ := starts.Lookup(topic, o.Partition); s.Offset < o.Offset {
			open[o.Partition], at[o.Partition] = o.Offset, kgo.NewOffset().At(s.Offset)
		}
	})
	// Markers are kept: a partition may end with one.
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Bootstrap()...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.KeepControlRecords(), kgo.FetchIsolationLevel(level))
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	defer client.Close()
	for len(open) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read %s: %w", topic, err)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			end, ok := open[rec.Partition]
			if !ok {
				return
			}
			if rec.Offset < end && (!committed || !rec.Attrs.IsControl()) {
				take(rec)
			}
			if rec.Offset >= end-1 {
				delete(open, rec.Partition)
			}
		})
	}
	return nil
}

// committed returns what readers of committed records find in the output and in the dead letter topic.
func (r *run) committed() []Event {
	for _, topic := range []string{r.copies, r.letters} {
		if err := r.await(settleLimit, func() error { return decided(r.tb.Context(), r.admin, topic) }); err != nil {
			r.complain("%v", err)
		}
	}
	var events []Event
	odd := 0
	complain := func(rec *kgo.Record, err error) {
		if odd++; odd <= oddShown {
			r.complain("%s %d, offset %d: %v", rec.Topic, rec.Partition, rec.Offset, err)
		}
	}
	by := map[[2]int64]string{}
	who := func(rec *kgo.Record) string {
		id := [2]int64{rec.ProducerID, int64(rec.ProducerEpoch)}
		if by[id] == "" {
			by[id] = fmt.Sprintf("producer %d/%d", id[0], id[1])
		}
		return by[id]
	}
	r.must(r.scan(r.copies, kgo.ReadCommitted(), func(rec *kgo.Record) {
		id, err := copyOf(rec)
		if err != nil {
			complain(rec, err)
			return
		}
		events = append(events, Event{ID: id, At: rec.Timestamp.Sub(r.begin), Worker: who(rec)})
	}))
	r.must(r.scan(r.letters, kgo.ReadCommitted(), func(rec *kgo.Record) {
		e, err := readLetter(rec, r.begin)
		if err != nil {
			complain(rec, err)
			return
		}
		e.Worker = who(rec)
		events = append(events, e)
	}))
	r.place(events)
	return events
}

// copyOf returns the id of a record of the output, or what is wrong with it.
func copyOf(rec *kgo.Record) (int, error) {
	id, err := kafkatest.ID(rec.Value)
	switch {
	case err != nil:
		return 0, err
	case !bytes.Equal(rec.Value, kafkatest.Value(id, valueBytes)):
		return 0, fmt.Errorf("record %d has the value %.80q", id, rec.Value)
	case string(rec.Key) != fmt.Sprintf("id-%d", id):
		return 0, fmt.Errorf("record %d has the key %q", id, rec.Key)
	case len(rec.Headers) != 1 || rec.Headers[0].Key != routeHeader || string(rec.Headers[0].Value) != rec.Topic:
		return 0, fmt.Errorf("record %d has the headers %v", id, rec.Headers)
	default:
		return id, nil
	}
}

// place says of each record of the output where it was read. It does not say so itself. Where a record came more than once, or was
// never confirmed, the topic itself is asked: the producer may have written it more than once.
func (r *run) place(events []Event) {
	came := make([]int, len(r.out.Places))
	for i := range events {
		if id := events[i].ID; id < len(came) {
			came[id]++
		}
	}
	places := map[int][]Place{}
	for id, n := range came {
		if p := r.out.Places[id]; n > 1 || n == 1 && p.Offset == unconfirmed {
			places[id] = nil
		}
	}
	if len(places) > 0 {
		r.must(r.scan(r.topic, kgo.ReadUncommitted(), func(rec *kgo.Record) {
			id, err := kafkatest.ID(rec.Value)
			if _, asked := places[id]; err == nil && asked {
				places[id] = append(places[id], Place{Partition: rec.Partition, Offset: rec.Offset})
			}
		}))
	}
	assign(events, r.out.Places, places)
}

// assign gives each record of the output its place, of those that were asked for one after the other, and from the start again where
// it came more often than the producer wrote it.
func assign(events []Event, confirmed []Place, places map[int][]Place) {
	used := map[int]int{}
	for i := range events {
		e := &events[i]
		switch asked := places[e.ID]; {
		case e.Letter != nil:
		case len(asked) > 0:
			e.Place = asked[used[e.ID]%len(asked)]
			used[e.ID]++
		case e.ID < len(confirmed):
			e.Place = confirmed[e.ID]
		default:
			e.Place = Place{Offset: unconfirmed}
		}
	}
}
