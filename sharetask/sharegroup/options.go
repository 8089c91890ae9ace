package sharegroup

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/sluicehq/sluice/internal/kafka"
)

// Defaults and limits of [Options].
const (
	DefaultMaxRecords = 500
	LimitMaxRecords   = 2000
	DefaultMaxBytes   = 16 << 20
	DefaultMaxWait    = 500 * time.Millisecond
	LimitMaxWait      = 10 * time.Second
)

// Options say what a source reads and how.
type Options struct {
	Connection kafka.Connection
	ClientID   string // Replaces Connection's when not empty.

	Group      string
	Topics     []string // These, or
	TopicRegex string   // every topic this matches (RE2, unanchored).

	// Lock is the group's record lock duration as configured. Zero means that
	// the broker's word is taken for it. Where the broker tells a shorter
	// one, that counts.
	Lock time.Duration

	// MaxRecords is how many records one fetch asks for, DefaultMaxRecords
	// when zero, at most LimitMaxRecords. The broker does not split a producer
	// batch for it.
	MaxRecords int
	// MaxBytes bounds one fetch's response, DefaultMaxBytes when zero. The
	// broker overshoots it by one producer batch.
	MaxBytes int
	// MaxWait is how long the broker may hold a fetch that finds nothing,
	// DefaultMaxWait when zero, at most LimitMaxWait. Records that another
	// member gave back are not seen before a fetch that waits has ended.
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
