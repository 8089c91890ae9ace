package sharetask

import (
	"context"

	"github.com/sluicehq/sluice/pluginapi"
)

// Sink is one sink instance as a task's writer uses it, whatever its form. It
// is called from one goroutine. loader's instances implement it.
type Sink interface {
	// Start starts the sink with its settings, which its maker bound.
	Start(ctx context.Context) error

	// Put stores batch and fills results, which has batch's length and comes
	// zeroed. On return each record has its result, or still the zero one,
	// which is unknown: its fate cannot be told. Put returns by ctx's end plus
	// a short grace, whatever the plugin does, and writes to results no more.
	Put(ctx context.Context, batch []pluginapi.Record, results []pluginapi.Result) error

	// Check asks whether the target is reachable; nil where the sink cannot
	// tell.
	Check(ctx context.Context) error

	// Stop stops the sink and releases it.
	Stop(ctx context.Context) error

	// Process numbers the process the sink lives in, so that a crash that
	// several share is counted once. A sink that shares its fate with no other
	// has a number of its own.
	Process() uint64

	// Gone reports that the instance is unusable (crashed, timed out,
	// trapped) and a new one must be made. Stop is still to be called.
	Gone() bool
}

// SinkMaker makes the sink of writer number writer; one that is apart shares its
// process with no other. It may block to start a process.
type SinkMaker func(ctx context.Context, writer int, apart bool) (Sink, error)

// Converter turns a record's bytes into what the connector's sink gets. It
// must not change its argument's slices. It is called from several goroutines.
type Converter interface {
	// Convert returns the record as the sink shall see it, whether to keep it
	// (false: dropped on purpose, accepted without a put), or an error that
	// names the stage.
	Convert(rec *pluginapi.Record, out *pluginapi.Record) (keep bool, err error)
}

// Stage says where a record failed, in Kafka Connect's words.
type Stage string

// The stages a dead letter may name.
const (
	StageConsume         Stage = "KAFKA_CONSUME"
	StageKeyConverter    Stage = "KEY_CONVERTER"
	StageValueConverter  Stage = "VALUE_CONVERTER"
	StageHeaderConverter Stage = "HEADER_CONVERTER"
	StageTransformation  Stage = "TRANSFORMATION"
	StagePut             Stage = "TASK_PUT"
)

// StageError is a conversion or transform error with its stage.
type StageError struct {
	Stage Stage
	Err   error
}

// Error returns the cause's text.
func (e *StageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StageError) Unwrap() error { return e.Err }

// DeadLetter is a record given up on, with why.
type DeadLetter struct {
	Record        *pluginapi.Record // As acquired, before conversion.
	Stage         Stage
	Class         pluginapi.Class
	Code          string
	Message       string
	DeliveryCount int // 0 in a consumer group.
}

// DeadLetterQueue takes records given up on.
type DeadLetterQueue interface {
	// Write writes the letters and returns one error per letter, nil once the
	// broker confirmed it. It blocks until then or until ctx ends, keeps
	// nothing, and is safe for concurrent use.
	Write(ctx context.Context, letters []DeadLetter) []error
}
