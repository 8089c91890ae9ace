package fetchconn

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// stream is a connection whose broker has said all that it will say.
type stream struct {
	net.Conn
	said    io.Reader
	written bytes.Buffer
	closed  bool
}

func (s *stream) Read(p []byte) (int, error)  { return s.said.Read(p) }
func (s *stream) Write(p []byte) (int, error) { return s.written.Write(p) }
func (s *stream) Close() error                { s.closed = true; return nil }

// dialed returns a connection of x to a broker that says said.
func dialed(t testing.TB, x *Exchange, said []byte) (net.Conn, *stream) {
	t.Helper()
	s := &stream{said: bytes.NewReader(said)}
	c, err := x.Dialer(func(context.Context, string, string) (net.Conn, error) { return s, nil })(t.Context(), "tcp", "b:1")
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

// asking is the beginning of a request.
func asking(key uint16, correlation uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, 10)
	b = binary.BigEndian.AppendUint16(b, key)
	b = binary.BigEndian.AppendUint16(b, 2)
	b = binary.BigEndian.AppendUint32(b, correlation)
	return append(b, "client"...)
}

// frame is a response.
func frame(correlation uint32, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(body))) //nolint:gosec // Few.
	return append(binary.BigEndian.AppendUint32(b, correlation), body...)
}

// fetchAnswer is the body of a share fetch's response, header tags included,
// whose one partition has these records.
func fetchAnswer(records []byte) []byte {
	r := kmsg.NewPtrShareFetchResponse()
	r.Version = 2
	r.AcquisitionLockTimeoutMillis = 30_000
	p := kmsg.NewShareFetchResponseTopicPartition()
	p.Records = records
	topic := kmsg.NewShareFetchResponseTopic()
	topic.Partitions = append(topic.Partitions, p)
	r.Topics = append(r.Topics, topic)
	return r.AppendTo([]byte{0})
}

// parsed is what the client makes of the answer in c's next frame.
func parsed(t *testing.T, x *Exchange, c io.Reader) (*Response, error) {
	t.Helper()
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		t.Fatal(err)
	}
	src := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if _, err := io.ReadFull(c, src); err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrShareFetchRequest()
	req.Version = 2
	resp, ok := x.Request(req).ResponseKind().(*Response)
	if !ok {
		t.Fatal("the request has another kind of response")
	}
	return resp, resp.ReadFrom(src[1:]) // The client skips the header's tags.
}

func TestAnswersToShareFetchesAreOurs(t *testing.T) {
	x := New()
	large := bytes.Repeat([]byte("r"), 2*smallBody)
	other := frame(8, []byte("what another request is answered"))
	c, broker := dialed(t, x, bytes.Join([][]byte{frame(7, fetchAnswer(large)), other, frame(9, fetchAnswer([]byte("few")))}, nil))
	asked := bytes.Join([][]byte{asking(shareFetch, 7), asking(3, 8), asking(shareFetch, 9)}, nil)
	for _, req := range [][]byte{asking(shareFetch, 7), asking(3, 8), asking(shareFetch, 9)} {
		if n, err := c.Write(req); n != len(req) || err != nil {
			t.Fatalf("wrote %d of %d: %v", n, len(req), err)
		}
	}
	if !bytes.Equal(broker.written.Bytes(), asked) {
		t.Error("the broker was sent something else than the client wrote")
	}

	for _, want := range [][]byte{large, nil, []byte("few")} {
		if want == nil {
			got := make([]byte, len(other))
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, other) {
				t.Errorf("the answer to another request came as %q, %v", got, err)
			}
			continue
		}
		resp, err := parsed(t, x, c)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body == nil {
			t.Errorf("an answer with %d bytes of records is not in a buffer of ours", len(want))
		}
		if got := resp.Topics[0].Partitions[0].Records; !bytes.Equal(got, want) || resp.AcquisitionLockTimeoutMillis != 30_000 {
			t.Errorf("parsed %d bytes of records and a lock of %d ms", len(got), resp.AcquisitionLockTimeoutMillis)
		}
		resp.Body.Release()
	}
	if n := len(x.conns[1].asked); n > 0 {
		t.Errorf("%d requests are kept in mind after their answers", n)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after the last answer: %v, want the end", err)
	}
}

func TestBodiesAreUsedAgain(t *testing.T) {
	x := New()
	const answers = 8
	var said []byte
	for i := range answers {
		said = append(said, frame(uint32(i), fetchAnswer(bytes.Repeat([]byte{byte(i)}, 4*smallBody)))...) //nolint:gosec // Few.
	}
	c, _ := dialed(t, x, said)
	seen := map[*byte]int{}
	for i := range answers {
		_, _ = c.Write(asking(shareFetch, uint32(i))) //nolint:gosec // Few.
		resp, err := parsed(t, x, c)
		if err != nil {
			t.Fatal(err)
		}
		seen[&(*resp.Body.buf)[0]]++
		resp.Body.Retain() // The response's own, and one of who uses the records.
		resp.Body.Release()
		if resp.Body.buf == nil {
			t.Fatal("a body that is held was given back")
		}
		resp.Body.Release()
	}
	if len(seen) == answers { // The race detector makes sync.Pool drop some on purpose.
		t.Errorf("%d answers, each gone before the next came, were in %d buffers", answers, len(seen))
	}
}

func TestBodyOutlivesItsConnection(t *testing.T) {
	x := New()
	large := bytes.Repeat([]byte("r"), 2*smallBody)
	c, broker := dialed(t, x, frame(1, fetchAnswer(large)))
	_, _ = c.Write(asking(shareFetch, 1))
	resp, err := parsed(t, x, c)
	if err != nil {
		t.Fatal(err)
	}
	if err = c.Close(); err != nil || !broker.closed || len(x.conns) > 0 {
		t.Errorf("closed %v with %d connections kept: %v", broker.closed, len(x.conns), err)
	}
	if !bytes.Equal(resp.Topics[0].Partitions[0].Records, large) {
		t.Error("records changed when their connection was closed")
	}
	resp.Body.Release()
}

func TestWhatIsNotThereIsAnError(t *testing.T) {
	x := New()
	answer := frame(1, fetchAnswer([]byte("records")))
	read := func(t *testing.T, c net.Conn) []byte {
		t.Helper()
		_, _ = c.Write(asking(shareFetch, 1))
		b, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		return b[9:] // Size, correlation id, tags.
	}
	parse := func(src []byte) error { return (&Response{x: x}).ReadFrom(src) }

	t.Run("closed before it was parsed", func(t *testing.T) {
		c, _ := dialed(t, x, answer)
		src := read(t, c)
		_ = c.Close()
		if err := parse(src); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	t.Run("parsed twice", func(t *testing.T) {
		c, _ := dialed(t, x, answer)
		src := read(t, c)
		first := &Response{x: x}
		first.SetVersion(2)
		if err := first.ReadFrom(src); err != nil {
			t.Error(err)
		}
		if err := parse(src); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	t.Run("of another exchange", func(t *testing.T) {
		other := New()
		c, _ := dialed(t, other, answer)
		if err := parse(read(t, c)); err == nil {
			t.Error("parsed the note of another client")
		}
	})
	t.Run("an answer that says nothing of use", func(t *testing.T) {
		c, _ := dialed(t, x, frame(1, []byte{0, 1, 2, 3}))
		if err := parse(read(t, c)); err == nil {
			t.Error("parsed three bytes")
		}
	})
	t.Run("header tags without an end", func(t *testing.T) {
		c, _ := dialed(t, x, frame(1, []byte{9, 1}))
		if err := parse(read(t, c)); err == nil {
			t.Error("parsed half a header")
		}
	})
	t.Run("a dialer that fails", func(t *testing.T) {
		refused := errors.New("refused")
		_, err := x.Dialer(func(context.Context, string, string) (net.Conn, error) { return nil, refused })(t.Context(), "tcp", "b:1")
		if !errors.Is(err, refused) {
			t.Error(err)
		}
	})
}

// A connection that ends early is not one that ended well.
func TestEndsInAFrame(t *testing.T) {
	answer := frame(1, fetchAnswer([]byte("records")))
	for cut := range len(answer) {
		c, _ := dialed(t, New(), answer[:cut])
		_, _ = c.Write(asking(shareFetch, 1))
		var size [4]byte // As the client reads: the size, and then the rest.
		_, err := io.ReadFull(c, size[:])
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, binary.BigEndian.Uint32(size[:])))
		}
		plain := io.ErrUnexpectedEOF
		if cut == 0 || cut == 4 {
			plain = io.EOF
		}
		if !errors.Is(err, plain) {
			t.Errorf("after %d of %d bytes: %v, want %v as without us", cut, len(answer), err, plain)
		}
	}
}

// What is no answer is the client's to name: here the alert of a broker that
// wanted TLS, which is shorter than an answer's head.
func TestWhatIsNoAnswerPassesThrough(t *testing.T) {
	alert := []byte{0x15, 3, 3, 0, 2, 2, 80}
	c, _ := dialed(t, New(), alert)
	_, _ = c.Write(asking(shareFetch, 1))
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, alert) {
		t.Errorf("read %x, %v; want %x", got, err, alert)
	}
}

// Requests that nobody waits for any more do not add up.
func TestAskedIsBounded(t *testing.T) {
	x := New()
	c, _ := dialed(t, x, bytes.Join([][]byte{frame(0, fetchAnswer([]byte("oldest"))), frame(maxAsked, fetchAnswer([]byte("newest")))}, nil))
	for i := range uint32(maxAsked + 1) {
		_, _ = c.Write(asking(shareFetch, i))
	}
	if n := len(x.conns[1].asked); n != maxAsked {
		t.Errorf("%d requests are kept in mind, want %d", n, maxAsked)
	}
	oldest, err := parsed(t, x, c)
	if err != nil || oldest.Body != nil || string(oldest.Topics[0].Partitions[0].Records) != "oldest" {
		t.Errorf("the forgotten request: body %v, %v", oldest.Body, err)
	}
	newest, err := parsed(t, x, c)
	if err != nil || newest.Body == nil || string(newest.Topics[0].Partitions[0].Records) != "newest" {
		t.Errorf("the newest request: body %v, %v", newest.Body, err)
	}
}

// FuzzRead compares what a client reads with the broker's words, frame by frame.
func FuzzRead(f *testing.F) {
	f.Add(frame(1, []byte("body")), uint8(1), uint8(3))
	f.Add(append(frame(2, []byte("other")), frame(1, nil)...), uint8(0), uint8(255))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0}, uint8(9), uint8(1))
	f.Add([]byte{0x15, 3, 3, 0, 2, 2, 80}, uint8(0), uint8(3))
	f.Add([]byte{0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 4, 0, 0, 0, 1}, uint8(2), uint8(8))
	f.Fuzz(func(t *testing.T, said []byte, ask, chunk uint8) {
		for rest := said; len(rest) >= 4; { // Not what makes 64 MiB of four bytes.
			size := int32(binary.BigEndian.Uint32(rest)) //nolint:gosec // As it is read.
			if size > 1<<20 && size <= maxBody {
				return
			}
			rest = rest[min(len(rest), 4+max(int(size), 0)):]
		}
		x := New()
		c, _ := dialed(t, x, said)
		_, _ = c.Write(asking(shareFetch, uint32(ask)))
		_, _ = c.Write(asking(18, uint32(ask)+1))

		var got bytes.Buffer
		_, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{c}, make([]byte, int(chunk)+1))

		var want []byte
		asked, whole := true, true
		for rest := said; len(rest) > 0 && whole; {
			if len(rest) < 4 {
				whole = false
				break
			}
			size := max(int(int32(binary.BigEndian.Uint32(rest))), 0) //nolint:gosec // As it is read.
			switch frame := rest[:min(len(rest), 4+size)]; {
			case size < 4 || size > maxBody:
				want = append(want, frame...)
			case len(frame) < 8:
				want = append(want, frame...)
				whole = len(frame) == 4 // The client has read four bytes, and is told what it would be.
			case asked && binary.BigEndian.Uint32(frame[4:]) == uint32(ask):
				if whole = len(frame) == 4+size; whole {
					want = append(want, 0, 0, 0, 29)
					want = append(append(append(want, frame[4:8]...), 0), x.note(1)...)
					asked = false
				}
			default:
				want = append(want, frame...)
			}
			rest = rest[min(len(rest), 4+size):]
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("read %x, want %x, of %x", got.Bytes(), want, said)
		}
		if whole != (err == nil) {
			t.Errorf("the end was told as %v, a whole frame was last: %v", err, whole)
		}
	})
}
