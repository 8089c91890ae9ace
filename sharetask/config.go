package sharetask

import (
	"errors"
	"log/slog"
	"time"
)

// Tolerance says what happens to a record that is given up on, in the words of
// Kafka Connect's errors.tolerance.
type Tolerance string

// The tolerances.
const (
	// ToleranceNone fails the task; with a dead letter queue, after the record
	// was written there.
	ToleranceNone Tolerance = "none"
	// ToleranceAll goes on: dead-lettered, or logged and counted where there
	// is no queue.
	ToleranceAll Tolerance = "all"
)

// Config is what a task is made of. Source, MakeSink and the policies are
// required.
type Config struct {
	Connector string
	Number    int // Of the task in this worker, from 0.

	Source   Source
	MakeSink SinkMaker
	Convert  Converter       // Nil leaves records as bytes.
	Letters  DeadLetterQueue // Nil means none.
	// BrokerLetters says that the broker writes a record that is rejected to
	// the group's dead letter topic (KIP-1191). Only without Letters and Ordered.
	BrokerLetters bool
	Parking       Parking      // Nil means none; not in a consumer group.
	Metrics       Metrics      // Nil counts nothing.
	Written       *Written     // Shared by the connector's tasks; nil makes one.
	Survived      *Survived    // Shared by the connector's tasks; nil makes one.
	Turn          *Turn        // Shared by all tasks of the worker; nil for a task alone.
	Logger        *slog.Logger // Nil discards.

	Ordered bool // Puts keep each partition's order: a consumer group.
	// Implicit sends the accepts of what was delivered together when all of it
	// is decided, or when the task does not acquire. Not with Ordered.
	Implicit       bool
	Parallelism    int // Writers; at least 1.
	Batch          BatchPolicy
	Retry          RetryPolicy
	ParkAfter      time.Duration // How long a record waits here, or would, before it is parked.
	Breaker        BreakerPolicy
	Isolate        IsolatePolicy
	CanCheck       bool          // The sink's Check asks its target.
	HoldTimeout    time.Duration // After which first deliveries are given back in an outage; 0 means never.
	MaxRejectRatio float64       // Of records given up on, above which the task fails; 0 means none.
	Tolerance      Tolerance
	LogErrors      bool // Log each record that is dead-lettered.
	PutTimeout     time.Duration
	StartTimeout   time.Duration // Of making, starting and checking a sink.
	StopTimeout    time.Duration // Of an ordered stop as a whole.
	// MaxDeliveryCount is the deliveries a record may have, those that it
	// survived in this worker not counted; above it is not put. 0 means no
	// limit.
	MaxDeliveryCount int
	// DeliveryLimit is the broker's, at which it gives a record up: one that is
	// at it is not put whatever it survived. 0 means none.
	DeliveryLimit  int
	MaxOpenRecords int // Held and undecided; at least one batch per writer.
	MaxOpenBytes   int // Of their keys, values and headers.
}

// validate checks for mistakes of the code that builds a Config.
func (c *Config) validate() error {
	switch {
	case c.Source == nil || c.MakeSink == nil:
		return errors.New("task without a source or a sink")
	case c.Implicit && c.Ordered:
		return errors.New("a consumer group has no implicit acknowledgements")
	case c.BrokerLetters && (c.Ordered || c.Letters != nil):
		return errors.New("the broker writes dead letters of share groups only, and alone")
	case c.Parallelism < 1 || c.Batch.MaxRecords < 1 || c.Batch.MaxBytes < 1:
		return errors.New("parallelism and batch sizes must be at least 1")
	case c.MaxOpenRecords < 1 || c.MaxOpenBytes < 1:
		return errors.New("bounds of open records must be at least 1")
	case c.PutTimeout <= 0 || c.StopTimeout <= 0 || c.StartTimeout <= 0:
		return errors.New("timeouts must be above 0")
	case c.Parking != nil && (c.Ordered || c.ParkAfter < 0):
		return errors.New("parking in a consumer group, or after less than no time")
	case c.Isolate.Attempts < 1 || c.HoldTimeout < 0 || c.MaxRejectRatio < 0 || c.MaxRejectRatio > 1:
		return errors.New("isolate.attempts, hold_timeout or max_ratio is out of range")
	case c.Breaker.Failures < 1 || c.Retry.Initial <= 0 || c.Retry.Max < c.Retry.Initial:
		return errors.New("retry and breaker policies are out of range")
	}
	return nil
}

// State is the state of a task, in Kafka Connect's words.
type State string

// The states of a task.
const (
	StateUnassigned State = "UNASSIGNED" // Starting: holds nothing yet.
	StateRunning    State = "RUNNING"
	StatePaused     State = "PAUSED" // Holds nothing; its sinks and membership stay.
	StateFailed     State = "FAILED" // A person must act; restarting may help.
)

// Status is a task's state at one moment.
type Status struct {
	State    State
	Degraded string // Why a running task makes no progress; empty if it does.
	Err      error  // Why it failed.
	Since    time.Time
}

// FailedError is returned by [Task.Run] for a task that must not be started
// again by itself: its settings, its target or its records need a person.
type FailedError struct{ Err error }

// Error returns the cause's text.
func (e *FailedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FailedError) Unwrap() error { return e.Err }
