package sharetask

import (
	"context"
	"errors"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// Source is one member of a Kafka group: it acquires records and tells the
// broker what became of them. sharegroup and consumergroup implement it; a
// [Task] is its only user.
//
// Everything a source has to say comes as an [Event], in the order it happened.
// Request and Decide never block and may be called from any goroutine; what
// they set off is reported by later events.
type Source interface {
	// Start joins the group and begins to deliver events. An error means the
	// source never started and needs no Close. ctx bounds Start only.
	Start(ctx context.Context) error

	// Events returns the source's events. The channel is bounded: the task
	// reads it until it is closed. It is closed at the end of Close, or after
	// a [Failed] event.
	Events() <-chan Event

	// Request says how much the source may have delivered since Start, in all:
	// it acquires while less than that was. Totals, and not what is wanted
	// next, since events on their way would else be counted twice. Each call
	// replaces the one before. The zero Room stops acquiring; what is already
	// on its way may still come.
	Request(total Room)

	// Decide hands over decisions about open records: any number, in any
	// order, for any session. Ranges of one Decision are in offset order and
	// do not overlap. For each, an [Acknowledged] or [Lost] event follows,
	// except that a decision about a session that already ended, or an offset
	// that is not open, has no effect and no event.
	Decide(decisions []Decision)

	// Close ends the membership in order: it stops acquiring, sends what was
	// decided and waits for the broker's confirmation, gives back what was
	// not decided, and leaves the group. Events go on until the channel is
	// closed, which the task must keep reading. When ctx ends first, Close
	// drops the connections, which gives everything back.
	Close(ctx context.Context) error
}

// Room bounds what a source has delivered since its Start. A source may
// overshoot by what one fetch brings.
type Room struct {
	Records int64
	Bytes   int64 // Of keys, values and headers: the sum of Acquired.Bytes.
	// Parked and ParkedBytes are the same of what comes with Acquired.Origins.
	Parked, ParkedBytes int64
}

// TopicPartition names one partition. For a share group it is the
// share-partition.
type TopicPartition struct {
	Topic     string
	TopicID   pluginapi.TopicID // Zero where the source does not know it.
	Partition int32
}

// Session numbers the hold a source has on a partition: a share session on its
// leader, or one assignment of a consumer group. A record delivered again in a
// later session is a new delivery, and decisions about the old one are void.
type Session uint64

// Verdict is what the broker is told about a record. The numbers are Kafka's
// acknowledge types (KIP-932, KIP-1222).
type Verdict uint8

// The verdicts. A consumer group knows Accept (its position may move past the
// record) and Release (it may not); Reject counts as Accept there, Renew as
// nothing.
const (
	Accept  Verdict = 1
	Release Verdict = 2
	Reject  Verdict = 3
	Renew   Verdict = 4
)

// String returns Kafka's name for the verdict, in lower case.
func (v Verdict) String() string {
	switch v {
	case Accept:
		return "accept"
	case Release:
		return "release"
	case Reject:
		return "reject"
	case Renew:
		return "renew"
	default:
		return "none"
	}
}

// Range is a range of offsets, both ends in it.
type Range struct{ First, Last int64 }

// Len returns the number of offsets in r.
func (r Range) Len() int64 { return r.Last - r.First + 1 }

// Decision is one verdict on ranges of one partition's open records.
type Decision struct {
	TopicPartition
	Session Session
	Verdict Verdict
	Ranges  []Range // In offset order, not overlapping.
}

// Event is something a source reports: [Acquired], [Acknowledged], [Lost],
// [Revoking], [Stalled], [Assigned] or [Failed].
type Event interface{ event() }

// Acquired is a run of records of one partition that this member holds now. In
// a share group it is what the broker accounts for as one: a task had better
// put and decide it as a whole.
type Acquired struct {
	TopicPartition
	Session Session
	// Records are in offset order, with keys, values and headers as bytes. The
	// task may keep them until it decided each of them and has no more use for
	// them; it calls Free then.
	Records []pluginapi.Record
	// DeliveryCounts has one count per record, this delivery included; nil in
	// a consumer group.
	DeliveryCounts []int16
	// LockedUntil is when the acquisition lock ends if it is not renewed,
	// reckoned from before the request was sent, so early rather than late.
	// Zero means there is no lock.
	LockedUntil time.Time
	Lock        time.Duration // The group's lock duration.
	Bytes       int           // Bytes of the records' keys, values and headers.
	// Memory is how many bytes stay in use while any of the records is: the
	// response they came in, say. At most Bytes, or 0, means no more than Bytes.
	Memory int
	// Free, if not nil, gives the memory behind Records back.
	Free func()
	// Origins has one for each record where they come from a retry topic, and is
	// nil else. Records have the coordinates the broker knows them by.
	Origins []Origin
	// Unreadable, if not nil, says why the records could not be read, and was
	// not so the first time either: they have nothing but their coordinates.
	Unreadable error
}

// Acknowledged reports decisions the broker confirmed. In a consumer group it
// reports offsets that a commit has covered.
type Acknowledged struct {
	TopicPartition
	Session Session
	Verdict Verdict
	Ranges  []Range
	// LockedUntil is the new end of the lock after a Renew, and Lock how long
	// it lasts: the group's lock duration may have changed since the records
	// were acquired.
	LockedUntil time.Time
	Lock        time.Duration
}

// Lost reports open records this member no longer holds, or whose decision the
// broker refused: they will be delivered again, here or elsewhere, unless the
// decision had landed after all.
type Lost struct {
	TopicPartition
	Session Session
	Ranges  []Range // Nil means every open record of the session.
	Verdict Verdict // The decision that failed; zero where there was none.
	Cause   error
}

// Revoking reports, in a consumer group, that the partition is about to be
// taken away: the task releases what has not been put yet and decides the rest
// by the deadline. What is undecided then comes back as [Lost].
type Revoking struct {
	TopicPartition
	Session  Session
	Deadline time.Time
}

// Stalled reports that the source acquires nothing more, whatever room there
// is, until open records are decided: its record-lock window is full. A batch
// that waits to fill up is put at once then. The next decision ends it.
type Stalled struct{}

// Assigned reports the partitions this member has now, for status and metrics.
type Assigned struct{ Partitions []TopicPartition }

// Failed reports that the source has ended by itself. Everything it held is
// lost. No event follows it.
type Failed struct{ Err error }

func (*Acquired) event()     {}
func (*Acknowledged) event() {}
func (*Lost) event()         {}
func (*Revoking) event()     {}
func (*Stalled) event()      {}
func (*Assigned) event()     {}
func (*Failed) event()       {}

// ErrGroupKind is the error of a source whose group id is in use by a group of
// another kind (a share heartbeat on a consumer group's name). Retrying does
// not help; the group must be converted or another name chosen.
var ErrGroupKind = errors.New("the group id is in use by a group of another kind")
