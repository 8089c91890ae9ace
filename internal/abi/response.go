package abi

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/sluicehq/sluice/pluginapi"
)

// The kinds of response.
const (
	kindRest  = 0 // The results from first on, all of them. Ends the put.
	kindError = 1 // An error with the results that are known. Ends the put.
	kindPart  = 2 // Some results. More follows.
)

// Bounds on an error's text; what is longer is cut.
const (
	maxCode    = 256
	maxMessage = 32 << 10
)

// AppendPutResponse appends an answer to a put: with part, some results from
// first on, else all that are left from first on, which ends the put.
func AppendPutResponse(dst []byte, part bool, first int, results []pluginapi.Result) []byte {
	kind := uint64(kindRest)
	if part {
		kind = kindPart
	}
	schemas := emittedSchemas(results)
	dst = appendUint(appendUint(appendArray(dst, 4+schemas.elements()), frameVersion), kind)
	return appendResults(appendUint(dst, uint64(first)), results, &schemas)
}

// AppendPutError appends the answer that a put failed with err, which is not
// nil, and what is known of the records from first on. It ends the put.
func AppendPutError(dst []byte, err *pluginapi.Error, first int, results []pluginapi.Result) []byte {
	schemas := emittedSchemas(results)
	dst = appendUint(appendUint(appendArray(dst, 5+schemas.elements()), frameVersion), kindError)
	dst = AppendError(dst, err)
	return appendResults(appendUint(dst, uint64(first)), results, &schemas)
}

// appendResults appends the results, and the schemas of what they emit, if there
// are any.
func appendResults(dst []byte, results []pluginapi.Result, schemas *schemaTable) []byte {
	dst = appendArray(dst, len(results))
	for i := range results {
		res := &results[i]
		switch {
		case len(res.Emitted) > 0:
			dst = appendUint(appendArray(dst, 6), uint64(res.Outcome))
			err := res.Err
			if err == nil {
				err = &pluginapi.Error{}
			}
			dst = appendEmitted(appendErrorFields(dst, err), res.Emitted, schemas)
		case res.Err != nil:
			dst = appendUint(appendArray(dst, 5), uint64(res.Outcome))
			dst = appendErrorFields(dst, res.Err)
		default:
			dst = appendUint(dst, uint64(res.Outcome))
		}
	}
	if schemas.elements() > 0 {
		dst = schemas.append(dst)
	}
	return dst
}

// AppendError appends err, null for nil. Texts beyond 256 bytes (code) and
// 32 KiB (message) are cut.
func AppendError(dst []byte, err *pluginapi.Error) []byte {
	if err == nil {
		return append(dst, itemNull)
	}
	return appendErrorFields(appendArray(dst, 4), err)
}

func appendErrorFields(dst []byte, err *pluginapi.Error) []byte {
	dst = appendUint(dst, uint64(err.Class))
	dst = appendText(dst, cut(err.Code, maxCode))
	dst = appendText(dst, cut(err.Message, maxMessage))
	return appendUint(dst, millisUp(err.RetryAfter))
}

// DecodePutResponse reads one answer to a put of len(results) records and
// stores what it says of them in results. final says that it ends the put;
// putErr is the plugin's own error, if it says one. Texts are copied.
//
// err, which wraps [ErrMalformed], means that the answer cannot be: it is no
// frame, it is about records the put does not have, it ends the put without an
// error and without a result for each record left, or has an outcome that is
// not known. Results it holds with known outcomes stand in the last case, none
// is stored in the others.
func DecodePutResponse(frame []byte, results []pluginapi.Result) (final bool, putErr *pluginapi.Error, err error) {
	r := reader{buf: frame}
	n := r.frame()
	kind := r.uintMax(kindPart, "response kind")
	want := 4
	if kind == kindError {
		want = 5
		if putErr = r.errorItem(); putErr == nil && r.err == nil {
			r.fail("response of kind %d without an error", kind)
		}
	}
	if r.err == nil && n < want {
		r.fail("response of %d elements", n)
	}
	first := r.upTo(r.uint(), len(results))
	count := r.array()
	if left := len(results) - first; r.err == nil && (count > left || kind == kindRest && count < left) {
		r.fail("%d results for %d records", count, left)
	}
	if r.accepts(count) {
		r.skipFrom(want, n)
		if err := r.end("put response"); err != nil {
			return false, nil, err
		}
		for i := range results[first : first+count] {
			results[first+i] = pluginapi.Result{Outcome: pluginapi.Accept}
		}
		return kind != kindPart, putErr, nil
	}
	// Read twice: nothing is stored before the frame is known to be whole.
	start, emits := r.pos, false
	for i := 0; i < count && r.err == nil; i++ {
		_, more := r.result(nil, nil)
		emits = emits || more
	}
	var d Decoder
	if emits {
		r.buf = slices.Clone(frame) // It outlives the frame.
		if n > want && r.err == nil {
			d.schemas = r.schemas()
			want++
		}
	}
	r.skipFrom(want, n)
	if err := r.end("put response"); err != nil {
		return false, nil, err
	}
	r.pos = start
	out := results[first : first+count]
	if emits { // What they emit was only skipped yet.
		out = make([]pluginapi.Result, count)
	}
	for i := range out {
		if outcome, _ := r.result(&out[i], &d); outcome < uint64(pluginapi.Accept) || outcome > uint64(pluginapi.Reject) {
			out[i] = pluginapi.Result{}
			if err == nil {
				err = fmt.Errorf("decode put response: %w: record %d: outcome %d is not known", ErrMalformed, first+i, outcome)
			}
		}
	}
	if r.err != nil {
		return false, nil, fmt.Errorf("decode put response: %w", r.err)
	}
	if emits {
		copy(results[first:], out)
	}
	return kind != kindPart, putErr, err
}

// accepts reads count results if all of them are an accept and nothing else, as
// nearly always, and reports whether they were.
func (r *reader) accepts(count int) bool {
	if r.err != nil || bytes.Count(r.buf[r.pos:r.pos+count], []byte{byte(pluginapi.Accept)}) < count {
		return false
	}
	r.pos += count
	return true
}

// upTo checks an index that may be up to limit.
func (r *reader) upTo(n uint64, limit int) int {
	if r.err == nil && n > uint64(limit) {
		r.fail("first record %d of %d", n, limit)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// result reads one result into res, if it is not nil, and returns its outcome and
// whether it emits records. These are read by d.
func (r *reader) result(res *pluginapi.Result, d *Decoder) (outcome uint64, emits bool) {
	if r.peek()&0xe0 == majorUint {
		outcome = r.uint()
		if res != nil {
			*res = pluginapi.Result{Outcome: pluginapi.Outcome(outcome)}
		}
		return outcome, false
	}
	n := r.array()
	if r.err == nil && n == 0 {
		r.fail("result without an outcome")
	}
	outcome = r.uint()
	var e pluginapi.Error
	r.errorFields(&e, min(n, resultEmitted)-1, res != nil)
	if res != nil {
		*res = pluginapi.Result{Outcome: pluginapi.Outcome(outcome)}
		if n > 1 && (n <= resultEmitted || e != pluginapi.Error{}) {
			kept := e
			res.Err = &kept
		}
	}
	if n > resultEmitted {
		if res == nil {
			start := r.pos
			if emits = r.array() > 0; r.err == nil {
				r.pos = start
				r.skip()
			}
		} else {
			res.Emitted = d.emitted(r)
		}
	}
	r.skipFrom(resultEmitted+1, n)
	return outcome, emits
}

// resultEmitted is the place of what is emitted in a result.
const resultEmitted = 5

// errorFields reads class, code, message and retry-after as far as n elements
// go, and skips the rest. keep false leaves the texts out.
func (r *reader) errorFields(e *pluginapi.Error, n int, keep bool) {
	if n > 0 {
		e.Class = class(r.uint())
	}
	if n > 1 {
		code := r.text()
		if keep {
			e.Code = copyText(code, maxCode)
		}
	}
	if n > 2 {
		message := r.text()
		if keep {
			e.Message = copyText(message, maxMessage)
		}
	}
	if n > 3 {
		e.RetryAfter = fromMillis(r.uint())
	}
	r.skipFrom(4, n)
}

// class returns a class this version knows, none for one that came later.
func class(n uint64) pluginapi.Class {
	if n > uint64(pluginapi.Invalid) {
		return pluginapi.NoClass
	}
	return pluginapi.Class(n)
}

func (r *reader) errorItem() *pluginapi.Error {
	if r.null() {
		return nil
	}
	n := r.array()
	if r.err == nil && n == 0 {
		r.fail("error without a class")
	}
	e := new(pluginapi.Error)
	r.errorFields(e, n, true)
	return e
}

// DecodeError reads an error, nil for null. Texts are copied, and cut as
// [AppendError] says. A class this version does not know is none.
func DecodeError(b []byte) (*pluginapi.Error, error) {
	r := reader{buf: b}
	e := r.errorItem()
	if err := r.end("error"); err != nil {
		return nil, err
	}
	return e, nil
}
