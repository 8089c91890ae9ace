package sharegroup

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"time"

	"github.com/sluicehq/sluice/internal/kafka"
)

// Defaults and limits of [Options].
const (
	DefaultMaxRecords  = 4000
	LimitMaxRecords    = 10_000
	DefaultRecordLocks = 2000
	LimitRecordLocks   = 10_000
	DefaultBatchSize   = 500
	DefaultMaxBytes    = 16 << 20
	DefaultMaxWait     = 5 * time.Second
	LimitMaxWait       = 10 * time.Second
)

// Options say what a source reads and how.
type Options struct {
	Connection kafka.Connection
	ClientID   string // Replaces Connection's when not empty.

	Group      string
	Topics     []string // These, or
	TopicRegex string   // every topic this matches (RE2, unanchored).

	// MemberID is the member's id in the group, a new one when empty. It must
	// not be in use: of two members with one id, each ends the other's
	// sessions. A member that died takes its place again with the id it had,
	// and what it held is given back.
	MemberID string

	// Lock is the group's record lock duration as configured. Zero means that
	// the broker's word is taken for it. Where the broker tells a shorter
	// one, that counts.
	Lock time.Duration

	// Exclude are topics that TopicRegex shall not match.
	Exclude []string

	// RecordLocks is the group's share.partition.max.record.locks,
	// DefaultRecordLocks when zero: no fetch is left waiting at the broker
	// while the windows of all partitions are full.
	RecordLocks int
	// BatchSize is how many records are decided together as a rule, which
	// makes the broker's accounts small; DefaultBatchSize when zero.
	BatchSize int
	// MaxRecords is how many records one fetch asks for at most,
	// DefaultMaxRecords when zero. The broker does not split a producer batch
	// for it.
	MaxRecords int
	// CarefulFrom is the delivery count from which records are acquired only few
	// at a time, so that few lose another delivery if the worker dies; 0 is
	// never.
	CarefulFrom int
	// MaxBytes bounds one fetch's response, DefaultMaxBytes when zero. The
	// broker overshoots it by one producer batch.
	MaxBytes int
	// MaxWait is how long the broker may hold a fetch that finds nothing when
	// there has been nothing for a minute, DefaultMaxWait when zero. Records
	// that another member gave back are not seen before a fetch that waits has
	// ended. A fetch waits half a second at most when there were records, and
	// 50 ms while some are held.
	MaxWait time.Duration

	Logger *slog.Logger // Nil discards.
}

// withDefaults checks o and fills in its defaults.
func (o Options) withDefaults() (Options, error) {
	var errs []error
	if o.Group == "" {
		errs = append(errs, errors.New("group: is empty"))
	}
	if (len(o.Topics) == 0) == (o.TopicRegex == "") {
		errs = append(errs, errors.New("topics: give either names or an expression"))
	}
	if _, err := regexp.Compile(o.TopicRegex); err != nil {
		errs = append(errs, fmt.Errorf("topic expression: %w", err))
	}
	if o.Lock < 0 {
		errs = append(errs, fmt.Errorf("lock: %v is negative", o.Lock))
	}
	o.MaxRecords = cmp.Or(o.MaxRecords, DefaultMaxRecords)
	if o.MaxRecords < 1 || o.MaxRecords > LimitMaxRecords {
		errs = append(errs, fmt.Errorf("max records: %d is not in 1 to %d", o.MaxRecords, LimitMaxRecords))
	}
	o.RecordLocks = cmp.Or(o.RecordLocks, DefaultRecordLocks)
	if o.RecordLocks < 1 || o.RecordLocks > LimitRecordLocks {
		errs = append(errs, fmt.Errorf("record locks: %d is not in 1 to %d", o.RecordLocks, LimitRecordLocks))
	}
	o.BatchSize = cmp.Or(o.BatchSize, DefaultBatchSize)
	if o.BatchSize < 1 || o.BatchSize > 1<<20 {
		errs = append(errs, fmt.Errorf("batch size: %d is not in 1 to %d", o.BatchSize, 1<<20))
	}
	if o.CarefulFrom < 0 || o.CarefulFrom > math.MaxInt16 {
		errs = append(errs, fmt.Errorf("careful from: %d is not in 0 to %d", o.CarefulFrom, math.MaxInt16))
	}
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultMaxBytes)
	if o.MaxBytes < 1 || o.MaxBytes > 1<<30 {
		errs = append(errs, fmt.Errorf("max bytes: %d is not in 1 to %d", o.MaxBytes, 1<<30))
	}
	o.MaxWait = cmp.Or(o.MaxWait, DefaultMaxWait)
	if o.MaxWait < time.Millisecond || o.MaxWait > LimitMaxWait {
		errs = append(errs, fmt.Errorf("max wait: %v is not in 1ms to %v", o.MaxWait, LimitMaxWait))
	}
	if o.ClientID != "" {
		o.Connection.ClientID = o.ClientID
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, errors.Join(errs...)
}
