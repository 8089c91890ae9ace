package sharetask

import "time"

// Metrics receives what a task counts. Methods are called once per batch or
// event, never per record, from several goroutines, and must not block.
type Metrics interface {
	// Acquired counts records handed to the task.
	Acquired(n int)
	// Redelivered counts those of them that were delivered before, and of
	// these the ones at their last chance: one or two deliveries from
	// MaxDeliveryCount. highest is the highest delivery count among them.
	Redelivered(n, lastChance, highest int)
	// Acknowledged counts decisions the broker confirmed.
	Acknowledged(v Verdict, n int)
	// Lost counts records whose lock or session was lost; renewal says that
	// the broker refused to renew a lock.
	Lost(n int, renewal bool)
	// Put observes one call of a sink's Put: its records, how long it took,
	// and whether it returned an error.
	Put(records int, took time.Duration, failed bool)
	// Retried counts records that will be put again.
	Retried(n int)
	// DeadLettered counts dead letters, by cause: those the broker confirmed,
	// or, where it writes them itself, those that were left to it.
	DeadLettered(cause string, n int)
	// DeadLetterFailed counts dead letters that could not be written and are
	// tried again.
	DeadLetterFailed(n int)
	// Parked counts records the broker confirmed in the retry topic.
	Parked(n int)
	// Dropped counts records given up on without a dead letter queue.
	Dropped(cause string, n int)
	// Open gives the records and bytes held now, and since when the oldest is;
	// the zero time without one.
	Open(records, bytes int, oldest time.Time)
	// Down gives whether the target is taken to be down.
	Down(down bool)
}

// noMetrics counts nothing.
type noMetrics struct{}

func (noMetrics) Acquired(int)                 {}
func (noMetrics) Redelivered(int, int, int)    {}
func (noMetrics) Acknowledged(Verdict, int)    {}
func (noMetrics) Lost(int, bool)               {}
func (noMetrics) Put(int, time.Duration, bool) {}
func (noMetrics) Retried(int)                  {}
func (noMetrics) DeadLettered(string, int)     {}
func (noMetrics) DeadLetterFailed(int)         {}
func (noMetrics) Parked(int)                   {}
func (noMetrics) Dropped(string, int)          {}
func (noMetrics) Open(int, int, time.Time)     {}
func (noMetrics) Down(bool)                    {}
