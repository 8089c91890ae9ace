package pluginapi

import "context"

// Sink is implemented by every plugin. The host calls Start once, then Put
// zero or more times, then Stop once, even if Start failed. It makes one call
// at a time, not always from the same goroutine.
//
// One connector may run many sinks (tasks x parallelism); each is made by
// [Plugin.New] and none shares state with another unless the author makes it.
type Sink interface {
	// Start prepares the sink. It connects lazily, or fails with an [*Error]
	// whose class decides what follows: [Fatal] and [Invalid] fail the task,
	// any other class, or a plain error, is tried again with backoff while
	// nothing is acquired. Start writes nothing at the target.
	Start(ctx context.Context, cfg Config) error

	// Put stores batch and returns one [Result] per record, in batch order.
	// A record answered [Accept] is durable: a sink keeps no state between
	// puts. ctx ends at the connector's put_timeout; the host keeps the
	// records' locks meanwhile. Put must not retain batch, nor any slice in
	// it. A non-nil error may come with results: nothing is known of the
	// records without one, unless its class is [Fatal], which fails the task.
	Put(ctx context.Context, batch []Record) ([]Result, error)

	// Stop releases what Start and Put took. No call follows it.
	Stop(ctx context.Context) error
}

// Checker is implemented by sinks that can tell whether their target is
// reachable with the settings they were started with. Check is called on a
// started sink, never during Put, and writes nothing. The host uses it before
// a task first acquires records and to find the end of an outage.
type Checker interface {
	Check(ctx context.Context) error
}

// Reporter is implemented by sinks that learn the results of a batch bit by
// bit. The host then calls PutReport in place of Put.
type Reporter interface {
	// PutReport stores batch and calls report, from any goroutine but never
	// after it returned, with the results of the records from index first on.
	// What was reported stands even if the plugin crashes before it returns.
	// Records never reported are unknown.
	PutReport(ctx context.Context, batch []Record, report func(first int, results []Result)) error
}

// Emitter is implemented by sinks that write nothing themselves: the results of
// their puts carry records, which the host produces to the cluster the connector
// reads from. Only such sinks can be exactly-once. A record may be put more than
// once, and each time become other records: what an earlier put made of it then
// was not kept.
type Emitter interface {
	// Emits does nothing. It says that results carry records.
	Emits()
}
