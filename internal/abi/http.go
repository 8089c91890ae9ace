package abi

import (
	"math"
	"time"
)

// HTTPRequest is what a WASM guest hands to the import http.
type HTTPRequest struct {
	Method  string // Empty means GET.
	URL     string
	Headers []HTTPHeader
	Body    []byte
	// Timeout bounds the request beside the put's deadline. Zero means no other
	// bound. Whole milliseconds on the wire.
	Timeout time.Duration
}

// HTTPHeader is one line of a request's or answer's header.
type HTTPHeader struct{ Name, Value string }

// HTTPResponse is the answer of the import http: either Failure is empty and
// there is a status, or the request got no answer.
type HTTPResponse struct {
	Status  int
	Headers []HTTPHeader
	Body    []byte

	Failure HTTPFailure
	Message string // Of the failure, for people.
}

// HTTPFailure says why there is no answer. Values are appended, never reused.
type HTTPFailure string

// The failures.
const (
	HTTPConnect   HTTPFailure = "connect"   // No connection, or it broke before the answer was whole.
	HTTPTimeout   HTTPFailure = "timeout"   // The request's timeout or the put's deadline.
	HTTPForbidden HTTPFailure = "forbidden" // The sandbox refuses the host, address or redirect.
	HTTPInvalid   HTTPFailure = "invalid"   // The request is not one.
	HTTPTooLarge  HTTPFailure = "too-large" // The answer is beyond the bound.
)

// AppendHTTPRequest appends q as a map with text keys, without what is empty.
func AppendHTTPRequest(dst []byte, q *HTTPRequest) []byte {
	f := newFields(dst)
	f.text("method", q.Method)
	f.text("url", q.URL)
	f.headers(q.Headers)
	f.body(q.Body)
	f.int("timeout-ms", int64(min(millisUp(q.Timeout), math.MaxInt64)))
	return f.end()
}

// DecodeHTTPRequest reads a request. Its body aliases b.
func DecodeHTTPRequest(b []byte) (HTTPRequest, error) {
	r := reader{buf: b}
	var q HTTPRequest
	for n := r.mapLen(); n > 0 && r.err == nil; n-- {
		switch r.text() {
		case "method":
			q.Method = r.ownText()
		case "url":
			q.URL = r.ownText()
		case "headers":
			q.Headers = r.httpHeaders()
		case "body":
			q.Body = r.bytes()
		case "timeout-ms":
			q.Timeout = fromMillis(r.uint())
		default:
			r.skip()
		}
	}
	if err := r.end("http request"); err != nil {
		return HTTPRequest{}, err
	}
	return q, nil
}

// AppendHTTPResponse appends a as a map with text keys, without what is empty.
func AppendHTTPResponse(dst []byte, a *HTTPResponse) []byte {
	f := newFields(dst)
	f.int("status", int64(a.Status))
	f.headers(a.Headers)
	f.body(a.Body)
	f.text("failure", string(a.Failure))
	f.text("message", cut(a.Message, maxMessage))
	return f.end()
}

// DecodeHTTPResponse reads an answer. Its body aliases b.
func DecodeHTTPResponse(b []byte) (HTTPResponse, error) {
	r := reader{buf: b}
	var a HTTPResponse
	for n := r.mapLen(); n > 0 && r.err == nil; n-- {
		switch r.text() {
		case "status":
			a.Status = int(r.uintMax(999, "http status"))
		case "headers":
			a.Headers = r.httpHeaders()
		case "body":
			a.Body = r.bytes()
		case "failure":
			a.Failure = HTTPFailure(r.ownText())
		case "message":
			a.Message = copyText(r.text(), maxMessage)
		default:
			r.skip()
		}
	}
	if err := r.end("http response"); err != nil {
		return HTTPResponse{}, err
	}
	return a, nil
}

func (f *fields) headers(list []HTTPHeader) {
	if len(list) == 0 {
		return
	}
	f.key("headers")
	f.dst = appendArray(f.dst, len(list))
	for _, h := range list {
		f.dst = appendText(appendText(appendArray(f.dst, 2), h.Name), h.Value)
	}
}

func (f *fields) body(b []byte) {
	if len(b) > 0 {
		f.key("body")
		f.dst = appendBytes(f.dst, b)
	}
}

func (r *reader) httpHeaders() []HTTPHeader {
	n := r.array()
	list := make([]HTTPHeader, 0, min(n, firstRoom))
	for i := 0; i < n && r.err == nil; i++ {
		parts := r.array()
		if r.err == nil && parts < 2 {
			r.fail("header of %d parts", parts)
		}
		h := HTTPHeader{Name: r.ownText()}
		h.Value = r.ownText()
		list = append(list, h)
		r.skipFrom(2, parts)
	}
	return list
}
