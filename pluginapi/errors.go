package pluginapi

import (
	"errors"
	"time"
)

// Class says what kind of trouble an [Error] is, and so what the host does.
//
// Class is part of the ABI: append values, never renumber them.
type Class uint8

// The classes an error may have.
const (
	NoClass     Class = 0 // None given; treated as Transient on a result.
	Transient   Class = 1 // Network, timeout, 5xx, deadlock: may pass by itself.
	Throttled   Class = 2 // The target asks for less; RetryAfter says how long.
	Unavailable Class = 3 // The target as a whole is down or refuses us.
	Unknown     Class = 4 // It is not known whether anything was stored.
	Fatal       Class = 5 // Missing table, wrong bucket: the task fails.
	Invalid     Class = 6 // The settings, or this record, can never be right.
)

// String returns the class's name in lower case, "none" for NoClass.
func (c Class) String() string {
	switch c {
	case NoClass:
		return "none"
	case Transient:
		return "transient"
	case Throttled:
		return "throttled"
	case Unavailable:
		return "unavailable"
	case Unknown:
		return "unknown"
	case Fatal:
		return "fatal"
	case Invalid:
		return "invalid"
	default:
		return "undefined"
	}
}

// Error is an error that crosses the plugin boundary. Only these fields
// travel; the chain behind them stays in the process that built it.
type Error struct {
	Class      Class
	Code       string        // Stable, for machines: an SQLSTATE, an HTTP status.
	Message    string        // For people. Never parsed; holds no secret.
	RetryAfter time.Duration // Zero means the host chooses. Millisecond precision.
}

// NewError returns an error of class with a code and a message.
func NewError(class Class, code, message string) *Error {
	return &Error{Class: class, Code: code, Message: message}
}

// Error returns the message, or the code where there is none.
func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code
	}
	return e.Message
}

// Is matches on Class and Code, so a sentinel is equal on both sides of the
// boundary.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Class == e.Class && t.Code == e.Code
}

// AsError returns err as an [*Error]: the first one in its chain, or a new one
// of class with err's text. It returns nil for nil.
func AsError(err error, class Class) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Class: class, Message: err.Error()}
}
