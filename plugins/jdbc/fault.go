package jdbc

import (
	"context"
	"errors"

	"github.com/sluicehq/sluice/pluginapi"
)

// faultKind says what a database's error means for the rows of a statement.
type faultKind uint8

const (
	// faultData: a row of the statement is at fault. It is looked for and rejected.
	faultData faultKind = iota + 1
	// faultOdd: an error nobody foresaw. The row is looked for, then asked to be retried.
	faultOdd
	// faultConflict: rolled back because of another transaction. It is tried again at once.
	faultConflict
	// faultLost: the connection is gone. Tried again on a new one, unless the commit was under way.
	faultLost
	// faultTarget: the database as a whole refuses us or is down.
	faultTarget
	// faultTimeout: our own deadline.
	faultTimeout
	// faultStale: the statement does not fit the table, which is read again.
	faultStale
	// faultUnknown: the commit may have been done.
	faultUnknown
	// faultFatal: somebody has to change settings or the database.
	faultFatal
)

// fault is a database's error, classified.
type fault struct {
	kind faultKind
	err  *pluginapi.Error
}

// isolates reports whether the fault is looked for row by row.
func (f *fault) isolates() bool { return f.kind == faultData || f.kind == faultOdd }

// again reports whether the transaction is worth trying again at once. It is not committed.
func (f *fault) again() bool { return f.kind == faultConflict || f.kind == faultLost }

// class returns the class of a fault of this kind.
func (k faultKind) class() pluginapi.Class {
	switch k {
	case faultData:
		return pluginapi.Invalid
	case faultTarget:
		return pluginapi.Unavailable
	case faultUnknown:
		return pluginapi.Unknown
	case faultStale, faultFatal:
		return pluginapi.Fatal
	case faultOdd, faultConflict, faultLost, faultTimeout:
		return pluginapi.Transient
	default:
		return pluginapi.Transient
	}
}

// maxMessage bounds the text of an error in bytes: it ends in headers and logs.
const maxMessage = 600

func newFault(kind faultKind, code, message string) *fault {
	if len(message) > maxMessage {
		message = message[:maxMessage] + "…"
	}
	return &fault{kind: kind, err: pluginapi.NewError(kind.class(), code, message)}
}

// contextFault returns a fault for an error that comes from a context, nil for another one.
func contextFault(err error) *fault {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return newFault(faultTimeout, "timeout", "the database did not answer in time")
	case errors.Is(err, context.Canceled):
		return newFault(faultTimeout, "canceled", "the put was canceled")
	default:
		return nil
	}
}
