package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// limits shape a session.
type limits struct {
	open    int64         // Records acquired and not put, at most.
	locks   int64         // Of a partition: offsets from the lowest open one on that the broker gives out.
	wait    time.Duration // Time a fetch waits at the broker while records are open.
	ackWait time.Duration // Time to wait for room before acknowledgements go alone.
}

// decided are offsets of a partition that a writer is done with.
type decided struct {
	partition int32
	span
}

// acquired is a partition's part of a response.
type acquired struct {
	partition int32
	records   []byte
	spans     []span
}

// session is one share session with the broker that leads all partitions. Everything in it belongs to the goroutine of run, but
// for the channels.
type session struct {
	limits
	broker    *kgo.Broker
	member    *member
	topic     [16]byte
	batch     int32 // Records of a put.
	epoch     int32
	numbers   []int32
	partition map[int32]*partition
	decisions chan decided  // From the writers.
	responses chan acquired // To the decoder.
}

// partition is what the session holds of one.
type partition struct {
	open spans // Acquired, not decided.
	due  spans // Accepted, the broker doesn't know yet.
	end  int64 // After the highest offset acquired.
}

// run keeps the session going until ctx ends. There is one request at a time.
func (s *session) run(ctx context.Context) error {
	for ctx.Err() == nil {
		s.drain()
		room, open, due := s.count()
		switch {
		case room > 0:
			wait := 500 * time.Millisecond
			if open > 0 {
				wait = s.wait
			}
			if err := s.fetch(ctx, room, wait); err != nil {
				return err
			}
		case due == 0:
			s.await(ctx, nil)
		default:
			if !s.awaitRoom(ctx) {
				if err := s.acknowledge(ctx); err != nil {
					return err
				}
			}
		}
	}
	return ctx.Err()
}

// count returns how many records may be asked for, how many are open, and how many are accepted and due to be told.
func (s *session) count() (room, open, due int64) {
	for _, p := range s.partition {
		open += p.open.size()
		due += p.due.size()
		if len(p.open) == 0 {
			room += s.locks
		} else {
			room += max(s.locks-(p.end-p.open[0].from), 0)
		}
	}
	return min(room, s.limits.open-open), open, due
}

func (s *session) drain() {
	for {
		select {
		case d := <-s.decisions:
			s.take(d)
		default:
			return
		}
	}
}

func (s *session) take(d decided) {
	p := s.partition[d.partition]
	p.open.remove(d.span)
	p.due.add(d.span)
}

// await takes one decision; false if the time is over first.
func (s *session) await(ctx context.Context, over <-chan time.Time) bool {
	select {
	case d := <-s.decisions:
		s.take(d)
		return true
	case <-over:
	case <-ctx.Done():
	}
	return false
}

// awaitRoom gives the writers a moment to make room, so that what is due can ride on a fetch.
func (s *session) awaitRoom(ctx context.Context) bool {
	if s.ackWait <= 0 {
		return false
	}
	timer := time.NewTimer(s.ackWait)
	defer timer.Stop()
	for s.await(ctx, timer.C) {
		s.drain()
		if room, _, _ := s.count(); room > 0 {
			return true
		}
	}
	return false
}

func (s *session) fetch(ctx context.Context, room int64, wait time.Duration) error {
	req := kmsg.NewPtrShareFetchRequest()
	req.GroupID, req.MemberID, req.ShareSessionEpoch = &s.member.group, &s.member.id, s.epoch
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(wait.Milliseconds()), 1, 50<<20
	req.MaxRecords, req.BatchSize = int32(room), s.batch
	topic := kmsg.NewShareFetchRequestTopic()
	topic.TopicID = s.topic
	for _, n := range s.numbers {
		p := s.partition[n]
		if s.epoch > 0 && len(p.due) == 0 {
			continue // The session knows the partition.
		}
		part := kmsg.NewShareFetchRequestTopicPartition()
		part.Partition = n
		for _, x := range p.due {
			b := kmsg.NewShareFetchRequestTopicPartitionAcknowledgementBatch()
			b.FirstOffset, b.LastOffset, b.AcknowledgeTypes = x.from, x.to-1, []int8{1}
			part.AcknowledgementBatches = append(part.AcknowledgementBatches, b)
		}
		p.due = p.due[:0]
		topic.Partitions = append(topic.Partitions, part)
	}
	if len(topic.Partitions) > 0 {
		req.Topics = append(req.Topics, topic)
	}
	answer, err := s.broker.Request(ctx, req)
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	resp := answer.(*kmsg.ShareFetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	s.epoch++
	for _, t := range resp.Topics {
		for i := range t.Partitions {
			s.received(&t.Partitions[i])
		}
	}
	return nil
}

// received notes what a partition's part of a response brings and hands it on.
func (s *session) received(r *kmsg.ShareFetchResponseTopicPartition) {
	for _, code := range []int16{r.ErrorCode, r.AcknowledgeErrorCode} {
		if err := kerr.ErrorForCode(code); err != nil {
			fmt.Fprintf(os.Stderr, "partition %d: %v\n", r.Partition, err)
		}
	}
	if len(r.AcquiredRecords) == 0 {
		return
	}
	p := s.partition[r.Partition]
	a := acquired{partition: r.Partition, records: r.Records}
	for _, x := range r.AcquiredRecords {
		got := span{x.FirstOffset, x.LastOffset + 1}
		p.open.add(got)
		p.end = max(p.end, got.to)
		a.spans = append(a.spans, got)
	}
	s.responses <- a
}

func (s *session) acknowledge(ctx context.Context) error {
	req := kmsg.NewPtrShareAcknowledgeRequest()
	req.GroupID, req.MemberID, req.ShareSessionEpoch = &s.member.group, &s.member.id, s.epoch
	topic := kmsg.NewShareAcknowledgeRequestTopic()
	topic.TopicID = s.topic
	for _, n := range s.numbers {
		p := s.partition[n]
		if len(p.due) == 0 {
			continue
		}
		part := kmsg.NewShareAcknowledgeRequestTopicPartition()
		part.Partition = n
		for _, x := range p.due {
			b := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
			b.FirstOffset, b.LastOffset, b.AcknowledgeTypes = x.from, x.to-1, []int8{1}
			part.AcknowledgementBatches = append(part.AcknowledgementBatches, b)
		}
		p.due = p.due[:0]
		topic.Partitions = append(topic.Partitions, part)
	}
	req.Topics = append(req.Topics, topic)
	answer, err := s.broker.Request(ctx, req)
	if err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	resp := answer.(*kmsg.ShareAcknowledgeResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	s.epoch++
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				fmt.Fprintf(os.Stderr, "acknowledge partition %d: %v\n", p.Partition, err)
			}
		}
	}
	return nil
}

// newSession is a session that is opened by its first fetch.
func newSession(l limits, broker *kgo.Broker, m *member, topic [16]byte, numbers []int32, batch int) *session {
	s := &session{
		limits: l, broker: broker, member: m, topic: topic, batch: int32(batch), numbers: slices.Sorted(slices.Values(numbers)),
		partition: map[int32]*partition{}, decisions: make(chan decided, 1024), responses: make(chan acquired, 64),
	}
	for _, n := range numbers {
		s.partition[n] = &partition{}
	}
	return s
}
