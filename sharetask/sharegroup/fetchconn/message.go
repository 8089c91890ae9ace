package fetchconn

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Request is a share fetch whose response is a [*Response].
type Request struct {
	*kmsg.ShareFetchRequest
	x *Exchange
}

// ResponseKind returns an empty response of the request's version.
func (r *Request) ResponseKind() kmsg.Response {
	resp := &Response{x: r.x}
	resp.Default()
	resp.SetVersion(r.GetVersion())
	return resp
}

// Timeout returns how long the broker may take in milliseconds: the client
// waits for longer.
func (r *Request) Timeout() int32 { return r.MaxWaitMillis }

// Response is the answer to a share fetch.
type Response struct {
	kmsg.ShareFetchResponse
	// Body is what Records of partitions point into, held once for whoever has
	// the response; nil where they are the garbage collector's.
	Body *Body
	x    *Exchange
}

// ReadFrom parses src, or the answer it is the note of.
func (r *Response) ReadFrom(src []byte) error {
	body, err := r.x.claim(src)
	if err != nil {
		return fmt.Errorf("find the answer to a share fetch: %w", err)
	}
	if body == nil {
		return r.ShareFetchResponse.ReadFrom(src)
	}
	b := kbin.Reader{Src: *body.buf}
	kmsg.SkipTags(&b) // Of the header.
	if err = b.Complete(); err == nil {
		err = r.ShareFetchResponse.ReadFrom(b.Src)
	}
	if err != nil {
		body.Release()
		return err
	}
	r.Body = body
	return nil
}
