package pluginapi

// Outcome is a sink's decision about one record. The zero value is no
// decision: the host treats the record as unknown and reports a faulty plugin.
//
// Outcome is part of the ABI: append values, never renumber them.
type Outcome uint8

// The outcomes a sink may answer.
const (
	Accept Outcome = 1 // Stored downstream, durably.
	Retry  Outcome = 2 // Not stored, may succeed later. Err says more.
	Reject Outcome = 3 // Not stored, never will be. Dead-lettered.
)

// String returns "accept", "retry", "reject", or "unknown" for anything else.
func (o Outcome) String() string {
	switch o {
	case Accept:
		return "accept"
	case Retry:
		return "retry"
	case Reject:
		return "reject"
	default:
		return "unknown"
	}
}

// Result is a sink's answer for one record.
type Result struct {
	Outcome Outcome
	// Err is the reason of a Retry or Reject: its class (Transient, Throttled
	// or Unavailable for a Retry), a code and a message for the dead letter's
	// headers, and when to try again. Nil means Transient without a reason.
	Err *Error
	// Emitted are the records an accepted record became, for the host to produce:
	// any number, in order; none is a filter. Only of an [Emitter]; the
	// record is accepted in its topic once the brokers have confirmed all of
	// them. What they refer to must stay as it is until the sink's next call.
	Emitted []Emitted
}

// Accepted returns n accepting results.
func Accepted(n int) []Result {
	r := make([]Result, n)
	for i := range r {
		r[i].Outcome = Accept
	}
	return r
}

// Retried returns a result that asks for err's record to be put again.
func Retried(err *Error) Result { return Result{Outcome: Retry, Err: err} }

// Rejected returns a result that gives the record up, with the reason.
func Rejected(code, message string) Result {
	return Result{Outcome: Reject, Err: &Error{Class: Invalid, Code: code, Message: message}}
}
