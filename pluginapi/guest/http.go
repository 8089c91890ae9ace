package guest

import (
	"context"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/abi"
	"github.com/sluicehq/sluice/pluginapi"
)

// Request is an HTTP request the host makes for the module.
type Request struct {
	Method  string // Empty means GET.
	URL     string
	Headers []Header
	Body    []byte

	// Timeout bounds the request, from connecting to the last byte of the
	// answer. Zero means the time that is left of the put. Milliseconds, rounded
	// up.
	Timeout time.Duration
}

// Header is one line of a request's or response's header.
type Header struct{ Name, Value string }

// Response is an HTTP answer. Its memory is the caller's.
type Response struct {
	Status  int
	Headers []Header
	Body    []byte // At most 16 MiB.
}

// Header returns the value of the first header called name, in any case; empty
// if there is none.
func (r *Response) Header(name string) string {
	for _, h := range r.Headers {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

// Codes of the errors [Do] returns.
const (
	CodeConnect   = string(abi.HTTPConnect)   // Class Transient: no connection, or it broke.
	CodeTimeout   = string(abi.HTTPTimeout)   // Class Transient: no whole answer in time.
	CodeForbidden = string(abi.HTTPForbidden) // Class Fatal: the sandbox does not allow it.
	CodeInvalid   = string(abi.HTTPInvalid)   // Class Invalid: a URL or header that is none.
	CodeTooLarge  = string(abi.HTTPTooLarge)  // Class Unknown: the answer is beyond 16 MiB.
)

// Do makes an HTTP request and waits for the whole answer. Any status is an
// answer, not an error; redirects are followed for GET and HEAD within the same
// scheme, host and port, any other is returned as it is. An error is a
// [*pluginapi.Error] with one of the codes above.
//
// ctx ends the request at its deadline. It cannot be cancelled in between:
// nothing else in the module runs meanwhile.
func Do(ctx context.Context, req Request) (*Response, error) {
	return do(ctx, currentHost().http, req)
}

func do(ctx context.Context, call func([]byte) []byte, req Request) (*Response, error) {
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		if left <= 0 {
			return nil, pluginapi.NewError(pluginapi.Transient, CodeTimeout, context.DeadlineExceeded.Error())
		}
		if req.Timeout <= 0 || left < req.Timeout {
			req.Timeout = left
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, pluginapi.NewError(pluginapi.Transient, CodeTimeout, err.Error())
	}
	wire := abi.HTTPRequest{
		Method: req.Method, URL: req.URL, Headers: wireHeaders(req.Headers), Body: req.Body, Timeout: req.Timeout,
	}
	answer, err := abi.DecodeHTTPResponse(call(abi.AppendHTTPRequest(nil, &wire)))
	if err != nil {
		return nil, pluginapi.NewError(pluginapi.Unknown, "abi", err.Error())
	}
	if answer.Failure != "" {
		return nil, pluginapi.NewError(failureClass(answer.Failure), string(answer.Failure), answer.Message)
	}
	return &Response{Status: answer.Status, Headers: guestHeaders(answer.Headers), Body: answer.Body}, nil
}

func failureClass(f abi.HTTPFailure) pluginapi.Class {
	switch f {
	case abi.HTTPForbidden:
		return pluginapi.Fatal
	case abi.HTTPInvalid:
		return pluginapi.Invalid
	case abi.HTTPTooLarge:
		return pluginapi.Unknown
	case abi.HTTPConnect, abi.HTTPTimeout:
		return pluginapi.Transient
	default:
		return pluginapi.Transient
	}
}

func wireHeaders(list []Header) []abi.HTTPHeader {
	out := make([]abi.HTTPHeader, len(list))
	for i, h := range list {
		out[i] = abi.HTTPHeader(h)
	}
	return out
}

func guestHeaders(list []abi.HTTPHeader) []Header {
	out := make([]Header, len(list))
	for i, h := range list {
		out[i] = Header(h)
	}
	return out
}
