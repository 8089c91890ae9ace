package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Message is every message of the service: the field numbers of the .proto
// agree so that one shape does for all of them.
type Message struct {
	Instance uint64 // Field 1.
	// Data is field 2. What is sent must stay unchanged until the peer has
	// answered. What is received is appended to it.
	Data   []byte
	Last   bool // Field 3.
	Cancel bool // Field 4.
	// Timeout is field 5, in whole milliseconds on the wire; 0 means none.
	Timeout time.Duration
	// SharedOffset and SharedBytes, fields 6 and 7, are where a whole frame
	// stands in the shared memory, instead of Data.
	SharedOffset uint64
	SharedBytes  uint64
	Shared       bool // Field 8: the plugin reads frames from shared memory.
	Sockets      bool // Field 9: the plugin takes put streams over sockets.
	// Ended, field 10, says that a put stream over a socket is over, with the
	// gRPC status in field 11 and its message in Data.
	Ended  bool
	Status uint64
}

// Protobuf's wire types, and the tags of the message's fields.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5

	tagInstance = 1<<3 | wireVarint
	tagData     = 2<<3 | wireBytes
	tagLast     = 3<<3 | wireVarint
	tagCancel   = 4<<3 | wireVarint
	tagTimeout  = 5<<3 | wireVarint

	tagSharedOffset = 6<<3 | wireVarint
	tagSharedBytes  = 7<<3 | wireVarint
	tagShared       = 8<<3 | wireVarint
	tagSockets      = 9<<3 | wireVarint
	tagEnded        = 10<<3 | wireVarint
	tagStatus       = 11<<3 | wireVarint
)

// errMalformed is the cause of every decoding error.
var errMalformed = errors.New("malformed message")

// appendHeader appends everything of m but its data's bytes, which follow it.
func (m *Message) appendHeader(dst []byte) []byte {
	if m.Instance != 0 {
		dst = append(dst, tagInstance)
		dst = binary.AppendUvarint(dst, m.Instance)
	}
	if m.Last {
		dst = append(dst, tagLast, 1)
	}
	if m.Cancel {
		dst = append(dst, tagCancel, 1)
	}
	if m.Timeout > 0 {
		dst = append(dst, tagTimeout)
		dst = binary.AppendUvarint(dst, uint64(max(m.Timeout/time.Millisecond, 1)))
	}
	if m.SharedOffset != 0 {
		dst = append(dst, tagSharedOffset)
		dst = binary.AppendUvarint(dst, m.SharedOffset)
	}
	if m.SharedBytes != 0 {
		dst = append(dst, tagSharedBytes)
		dst = binary.AppendUvarint(dst, m.SharedBytes)
	}
	if m.Shared {
		dst = append(dst, tagShared, 1)
	}
	if m.Sockets {
		dst = append(dst, tagSockets, 1)
	}
	if m.Ended {
		dst = append(dst, tagEnded, 1)
	}
	if m.Status != 0 {
		dst = append(dst, tagStatus)
		dst = binary.AppendUvarint(dst, m.Status)
	}
	if len(m.Data) > 0 {
		dst = append(dst, tagData)
		dst = binary.AppendUvarint(dst, uint64(len(m.Data)))
	}
	return dst
}

// read decodes a message from r, which holds exactly one. Fields it does not
// know are skipped.
func (m *Message) read(r *mem.Reader) error {
	for r.Remaining() > 0 {
		tag, err := binary.ReadUvarint(r)
		if err != nil {
			return errMalformed
		}
		switch tag {
		case tagInstance:
			err = readNumber(r, &m.Instance)
		case tagSharedOffset:
			err = readNumber(r, &m.SharedOffset)
		case tagSharedBytes:
			err = readNumber(r, &m.SharedBytes)
		case tagShared:
			err = readBool(r, &m.Shared)
		case tagSockets:
			err = readBool(r, &m.Sockets)
		case tagEnded:
			err = readBool(r, &m.Ended)
		case tagStatus:
			err = readNumber(r, &m.Status)
		case tagLast:
			err = readBool(r, &m.Last)
		case tagCancel:
			err = readBool(r, &m.Cancel)
		case tagTimeout:
			err = readTimeout(r, &m.Timeout)
		case tagData:
			err = m.readData(r)
		default:
			err = skip(r, tag)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *Message) readData(r *mem.Reader) error {
	n, err := binary.ReadUvarint(r)
	if err != nil || n > uint64(r.Remaining()) {
		return errMalformed
	}
	start := len(m.Data)
	m.Data = grow(m.Data, int(n))
	if _, err := io.ReadFull(r, m.Data[start:]); err != nil {
		return errMalformed
	}
	return nil
}

// grow returns b longer by n bytes. It doubles, so that a frame of many chunks
// is copied a bounded number of times.
func grow(b []byte, n int) []byte {
	if need := len(b) + n; need > cap(b) {
		bigger := make([]byte, len(b), max(need, 2*cap(b)))
		copy(bigger, b)
		b = bigger
	}
	return b[:len(b)+n]
}

func readNumber(r *mem.Reader, to *uint64) error {
	v, err := binary.ReadUvarint(r)
	if err != nil {
		return errMalformed
	}
	*to = v
	return nil
}

func readBool(r *mem.Reader, to *bool) error {
	v, err := binary.ReadUvarint(r)
	if err != nil {
		return errMalformed
	}
	*to = v != 0
	return nil
}

// readTimeout reads milliseconds; what a Duration cannot hold is no limit.
func readTimeout(r *mem.Reader, to *time.Duration) error {
	v, err := binary.ReadUvarint(r)
	if err != nil {
		return errMalformed
	}
	*to = 0
	if v <= uint64(math.MaxInt64/time.Millisecond) {
		*to = time.Duration(v) * time.Millisecond
	}
	return nil
}

func skip(r *mem.Reader, tag uint64) error {
	if tag>>3 == 0 {
		return errMalformed
	}
	var n uint64
	var err error
	switch tag & 7 {
	case wireVarint:
		_, err = binary.ReadUvarint(r)
	case wireFixed64:
		n = 8
	case wireFixed32:
		n = 4
	case wireBytes:
		n, err = binary.ReadUvarint(r)
	default:
		err = errMalformed
	}
	if err != nil || n > uint64(r.Remaining()) {
		return errMalformed
	}
	if _, err := r.Discard(int(n)); err != nil {
		return errMalformed
	}
	return nil
}

// headerRoom is enough for what appendHeader appends.
const headerRoom = 6*binary.MaxVarintLen64 + 24

// codec is gRPC's codec for [Message]. Everything else (go-plugin's own
// services, health, reflection) goes to the stock one, since a codec forced on
// a server catches these too.
type codec struct{ stock encoding.CodecV2 }

// NewCodec returns the codec both sides of the service use.
func NewCodec() encoding.CodecV2 {
	return codec{stock: encoding.GetCodecV2(proto.Name)}
}

// Name returns protobuf's name: the bytes are protobuf's.
func (codec) Name() string { return proto.Name }

// Marshal returns v's bytes. A Message's data is not copied.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*Message)
	if !ok {
		return c.stock.Marshal(v)
	}
	head := mem.SliceBuffer(m.appendHeader(make([]byte, 0, headerRoom)))
	if len(m.Data) == 0 {
		return mem.BufferSlice{head}, nil
	}
	return mem.BufferSlice{head, mem.SliceBuffer(m.Data)}, nil
}

// Unmarshal reads v from data; a Message's data is appended to what it has.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*Message)
	if !ok {
		return c.stock.Unmarshal(data, v)
	}
	r := data.Reader()
	defer r.Close() //nolint:errcheck // It cannot fail.
	if err := m.read(r); err != nil {
		return fmt.Errorf("decode plugin message: %w", err)
	}
	return nil
}
