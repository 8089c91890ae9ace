package sharegroup

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicehq/sluice/sharetask"
	"github.com/sluicehq/sluice/sharetask/sharegroup/fetchconn"
)

// wire sends a session's requests to its leader.
type wire struct {
	broker    *kgo.Broker
	fetches   *fetchconn.Exchange
	group     string
	member    string
	batchSize int32
}

// send sends req and returns the answer, in an answer.err if there was none.
// It blocks for as long as the broker takes, which is req.maxWait for a fetch.
func (w *wire) send(ctx context.Context, req *request) answer {
	if req.kind == fetch {
		return w.fetch(ctx, req)
	}
	return w.acknowledge(ctx, req)
}

// ask sends a request and returns the response, which must be an R.
func ask[R kmsg.Response](ctx context.Context, w *wire, r kmsg.Request) (R, error) {
	kr, err := w.broker.Request(ctx, r)
	if err != nil {
		return *new(R), err
	}
	resp, ok := kr.(R)
	if !ok {
		return resp, fmt.Errorf("the broker answered with %T", kr)
	}
	return resp, nil
}

func newAnswer(lockMillis int32) answer {
	return answer{lock: time.Duration(lockMillis) * time.Millisecond, parts: map[partitionKey]*partAnswer{}}
}

// acquireExactly is ShareAcquireMode record_limit (KIP-1206).
const acquireExactly = 1

func (w *wire) fetch(ctx context.Context, req *request) answer {
	r := kmsg.NewPtrShareFetchRequest()
	r.GroupID, r.MemberID, r.ShareSessionEpoch = &w.group, &w.member, req.epoch
	r.MaxWaitMillis, r.MinBytes = int32(req.maxWait.Milliseconds()), 1 //nolint:gosec // Seconds.
	r.MaxBytes, r.MaxRecords = int32(req.bytes), int32(req.records)    //nolint:gosec // Both bounded by Options.
	r.BatchSize = w.batchSize
	if req.exact {
		r.ShareAcquireMode = acquireExactly
	}
	topics := byTopic[kmsg.ShareFetchRequestTopic]{}
	place := map[partitionKey]int{} // In its topic.
	partition := func(key partitionKey) *kmsg.ShareFetchRequestTopicPartition {
		t, fresh := topics.get(key)
		if fresh {
			t.TopicID = key.topic
		}
		if i, ok := place[key]; ok {
			return &t.Partitions[i]
		}
		place[key] = len(t.Partitions)
		t.Partitions = append(t.Partitions, kmsg.ShareFetchRequestTopicPartition{Partition: key.partition, PartitionMaxBytes: r.MaxBytes})
		return &t.Partitions[len(t.Partitions)-1]
	}
	for _, key := range req.add {
		partition(key)
	}
	for _, pa := range req.acks {
		p := partition(partitionKey{pa.part.TopicID, pa.part.Partition})
		for _, a := range pa.acks {
			p.AcknowledgementBatches = append(p.AcknowledgementBatches, kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{
				FirstOffset: a.First, LastOffset: a.Last, AcknowledgeTypes: ackType(a.verdict),
			})
		}
	}
	r.Topics = topics.list()
	forget := byTopic[kmsg.ShareFetchRequestForgottenTopicsData]{}
	for _, key := range req.forget {
		t, fresh := forget.get(key)
		if fresh {
			t.TopicID = key.topic
		}
		t.Partitions = append(t.Partitions, key.partition)
	}
	r.ForgottenTopicsData = forget.list()

	resp, err := ask[*fetchconn.Response](ctx, w, w.fetches.Request(r))
	if err != nil {
		return answer{err: err}
	}
	if err := brokerError(resp.ErrorCode, resp.ErrorMessage); err != nil {
		resp.Body.Release()
		return answer{err: err}
	}
	a := newAnswer(resp.AcquisitionLockTimeoutMillis)
	a.body = resp.Body
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			pa := &partAnswer{
				err: brokerError(p.ErrorCode, p.ErrorMessage), ackErr: brokerError(p.AcknowledgeErrorCode, p.AcknowledgeErrorMessage),
				leader: p.CurrentLeader.LeaderID, raw: p.Records,
			}
			pa.acquired = acquiredOf(p.AcquiredRecords)
			a.parts[partitionKey{t.TopicID, p.Partition}] = pa
		}
	}
	return a
}

// maxSpan bounds the offsets one response may say were acquired of a
// partition: brokers have a limit of 10,000, and a producer batch on top.
const maxSpan = 1 << 20

// acquiredOf returns the ranges that make sense, in the order they are in.
func acquiredOf(list []kmsg.ShareFetchResponseTopicPartitionAcquiredRecord) []acquired {
	var out []acquired
	var sum int64
	for _, r := range list {
		n := r.LastOffset - r.FirstOffset + 1
		sum += n
		if r.FirstOffset < 0 || n < 1 || sum > maxSpan || len(out) > 0 && r.FirstOffset <= out[len(out)-1].Last {
			break // What is left out ends with its lock.
		}
		out = append(out, acquired{Range: sharetask.Range{First: r.FirstOffset, Last: r.LastOffset}, deliveryCount: r.DeliveryCount})
	}
	return out
}

func (w *wire) acknowledge(ctx context.Context, req *request) answer {
	r := kmsg.NewPtrShareAcknowledgeRequest()
	r.GroupID, r.MemberID, r.ShareSessionEpoch = &w.group, &w.member, req.epoch
	r.IsRenewAck = req.renewals
	topics := byTopic[kmsg.ShareAcknowledgeRequestTopic]{}
	for _, pa := range req.acks {
		t, fresh := topics.get(partitionKey{pa.part.TopicID, pa.part.Partition})
		if fresh {
			t.TopicID = pa.part.TopicID
		}
		p := kmsg.ShareAcknowledgeRequestTopicPartition{Partition: pa.part.Partition}
		for _, a := range pa.acks {
			p.AcknowledgementBatches = append(p.AcknowledgementBatches, kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{
				FirstOffset: a.First, LastOffset: a.Last, AcknowledgeTypes: ackType(a.verdict),
			})
		}
		t.Partitions = append(t.Partitions, p)
	}
	r.Topics = topics.list()

	resp, err := ask[*kmsg.ShareAcknowledgeResponse](ctx, w, r)
	if err == nil {
		err = brokerError(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return answer{err: err}
	}
	a := newAnswer(resp.AcquisitionLockTimeoutMillis)
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			a.parts[partitionKey{t.TopicID, p.Partition}] = &partAnswer{
				ackErr: brokerError(p.ErrorCode, p.ErrorMessage), leader: p.CurrentLeader.LeaderID,
			}
		}
	}
	return a
}

// ackType returns Kafka's acknowledge type of a verdict on a whole range.
func ackType(v sharetask.Verdict) []int8 {
	if v == gap {
		return []int8{0}
	}
	return []int8{int8(v)} //nolint:gosec // 1 to 4.
}

// brokerError returns the error of a code with the broker's text; nil for 0.
func brokerError(code int16, text *string) error {
	err := kerr.ErrorForCode(code)
	if err == nil || text == nil || *text == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, *text)
}

// byTopic gathers a request's partitions by topic.
type byTopic[T any] struct {
	index map[[16]byte]int
	all   []T
}

// get returns the entry of key's topic, and whether it was made for it. It is
// valid until the next call.
func (b *byTopic[T]) get(key partitionKey) (entry *T, fresh bool) {
	i, ok := b.index[key.topic]
	if !ok {
		if b.index == nil {
			b.index = map[[16]byte]int{}
		}
		i = len(b.all)
		b.index[key.topic] = i
		b.all = append(b.all, *new(T))
	}
	return &b.all[i], !ok
}

func (b *byTopic[T]) list() []T { return b.all }
