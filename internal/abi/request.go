package abi

import (
	"math"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// frameVersion is the first element of every request and response.
const frameVersion = 1

// PutHeader is what a put request says beside its records.
type PutHeader struct {
	// Deadline is the time left when the frame was written, in whole
	// milliseconds on the wire. Zero means there is none; a time that is over
	// is written as one millisecond.
	Deadline  time.Duration
	Connector string
	Task      int
}

type topicKey struct {
	name string
	id   pluginapi.TopicID
}

// topicTable numbers the topics of a frame. A few are looked up in place, so
// that the common frame allocates nothing.
type topicTable struct {
	first [8]topicKey
	n     int
	more  []topicKey
	index map[topicKey]int
}

func (t *topicTable) at(i int) *topicKey {
	if i < len(t.first) {
		return &t.first[i]
	}
	return &t.more[i-len(t.first)]
}

// number returns the number of the record's topic and gives it one if it has
// none. hint is where to look first.
func (t *topicTable) number(rec *pluginapi.Record, hint int) int {
	if hint < t.n {
		if k := t.at(hint); k.name == rec.Topic && k.id == rec.TopicID {
			return hint
		}
	}
	key := topicKey{rec.Topic, rec.TopicID}
	for i := range min(t.n, len(t.first)) {
		if t.first[i] == key {
			return i
		}
	}
	if i, ok := t.index[key]; ok {
		return i
	}
	i := t.n
	t.n++
	if i < len(t.first) {
		t.first[i] = key
		return i
	}
	if t.index == nil {
		t.index = make(map[topicKey]int)
	}
	t.index[key] = i
	t.more = append(t.more, key)
	return i
}

// AppendPutRequest appends the request to put batch. It keeps nothing, and
// allocates nothing for records of bytes from a few topics if dst has room.
func AppendPutRequest(dst []byte, h PutHeader, batch []pluginapi.Record) []byte {
	var topics topicTable
	var schemas schemaTable
	last := 0
	for i := range batch {
		rec := &batch[i]
		last = topics.number(rec, last)
		schemas.addDatum(rec.Key)
		schemas.addDatum(rec.Value)
		for j := range rec.Headers {
			schemas.addDatum(rec.Headers[j].Value)
		}
	}
	dst = appendArray(dst, 5)
	dst = appendUint(dst, frameVersion)
	dst = appendPutHeader(dst, h)
	dst = appendArray(dst, topics.n)
	for i := range topics.n {
		k := topics.at(i)
		dst = appendText(appendArray(dst, 2), k.name)
		if k.id == (pluginapi.TopicID{}) {
			dst = append(dst, itemNull)
		} else {
			dst = appendBytes(dst, k.id[:])
		}
	}
	dst = schemas.append(dst)
	dst = appendArray(dst, len(batch))
	last = 0
	for i := range batch {
		last = topics.number(&batch[i], last)
		dst = appendRecord(dst, &batch[i], last, &schemas)
	}
	return dst
}

// PutRequestRoom returns room enough for the put request of a batch of bytes, so
// that it can be written where it is to be read. It is not known of a batch with
// data: ok is false then.
func PutRequestRoom(h PutHeader, batch []pluginapi.Record) (n int, ok bool) {
	typed := false
	const forBatch, forTopic, forRecord, forHeader = 128, 64, 64, 32
	n = forBatch + len(h.Connector)
	for i := range batch {
		rec := &batch[i]
		n += forRecord + datumBytes(rec.Key, &typed) + datumBytes(rec.Value, &typed)
		if i == 0 || rec.Topic != batch[i-1].Topic || rec.TopicID != batch[i-1].TopicID {
			n += forTopic + len(rec.Topic)
		}
		for j := range rec.Headers {
			n += forHeader + len(rec.Headers[j].Key) + datumBytes(rec.Headers[j].Value, &typed)
		}
	}
	return n, !typed
}

// datumBytes returns the length of bytes, and sets data if d is none.
func datumBytes(d pluginapi.Datum, data *bool) int {
	b, ok := d.Bytes()
	if !ok && !d.IsAbsent() {
		*data = true
	}
	return len(b)
}

func appendPutHeader(dst []byte, h PutHeader) []byte {
	n := 2
	if h.Deadline != 0 {
		n = 3
	}
	dst = appendMap(dst, n)
	if h.Deadline != 0 {
		dst = appendUint(appendText(dst, "deadline-ms"), uint64(max(h.Deadline/time.Millisecond, 1)))
	}
	dst = appendText(appendText(dst, "connector"), h.Connector)
	return appendInt(appendText(dst, "task"), int64(h.Task))
}

func appendRecord(dst []byte, rec *pluginapi.Record, topic int, schemas *schemaTable) []byte {
	n := 7
	if len(rec.Headers) > 0 {
		n = 8
	}
	dst = appendArray(dst, n)
	dst = appendUint(dst, uint64(topic))
	dst = appendInt(dst, int64(rec.Partition))
	dst = appendInt(dst, rec.Offset)
	if rec.TimestampType == pluginapi.NoTimestamp {
		dst = append(dst, 0, 0)
	} else {
		dst = appendInt(dst, rec.Timestamp.UnixMilli())
		dst = appendUint(dst, uint64(rec.TimestampType))
	}
	dst = appendDatum(dst, rec.Key, schemas)
	dst = appendDatum(dst, rec.Value, schemas)
	if n > 7 {
		dst = appendHeaders(dst, rec.Headers, schemas)
	}
	return dst
}

func appendHeaders(dst []byte, headers []pluginapi.Header, schemas *schemaTable) []byte {
	dst = appendArray(dst, len(headers))
	for i := range headers {
		dst = appendText(appendArray(dst, 2), headers[i].Key)
		dst = appendDatum(dst, headers[i].Value, schemas)
	}
	return dst
}

// DecodePutRequest reads a put request. Strings and byte slices of the records
// alias frame: they are good for as long as its bytes do not change. Errors wrap
// [ErrMalformed].
func DecodePutRequest(frame []byte) (PutHeader, []pluginapi.Record, error) {
	return new(Decoder).PutRequest(frame)
}

// Decoder reads put requests into memory it uses again. Records of bytes cost
// no allocation once it is warm. It keeps topic names, the connector's name and
// schemas from frame to frame, so these do not alias a frame and equal ones are
// the same value: a sink may keep a schema and compare it by pointer. The zero
// Decoder is ready; it is not safe for concurrent use.
type Decoder struct {
	connector string
	topics    []topicKey
	records   []pluginapi.Record
	headers   []pluginapi.Header
	typed     []data.Typed

	rawSchemas []byte // What schemas was read from.
	schemas    []*data.Schema
}

// PutRequest is [DecodePutRequest]; what it returns is good until the next call
// or until frame's bytes change.
func (d *Decoder) PutRequest(frame []byte) (PutHeader, []pluginapi.Record, error) {
	r := reader{buf: frame}
	n := r.frame()
	var h PutHeader
	if n > 1 {
		h = d.header(&r)
	}
	topics := 0
	if n > 2 {
		topics = d.readTopics(&r)
	}
	if n > 3 {
		d.readSchemas(&r)
	} else {
		d.schemas = nil
		d.rawSchemas = d.rawSchemas[:0]
	}
	clear(d.records)
	clear(d.headers)
	d.records, d.headers, d.typed = d.records[:0], d.headers[:0], nil
	if n > 4 {
		d.readRecords(&r, topics)
	}
	r.skipFrom(5, n)
	if err := r.end("put request"); err != nil {
		return PutHeader{}, nil, err
	}
	return h, d.records, nil
}

// frame reads the head and version of a request or response.
func (r *reader) frame() int {
	n := r.array()
	if r.err == nil && n == 0 {
		r.fail("frame without a version")
	}
	if v := r.uint(); r.err == nil && v != frameVersion {
		r.fail("frame version %d, this reader knows %d", v, frameVersion)
	}
	return n
}

func (d *Decoder) header(r *reader) PutHeader {
	var h PutHeader
	for n := r.mapLen(); n > 0 && r.err == nil; n-- {
		switch r.text() {
		case "deadline-ms":
			h.Deadline = fromMillis(r.uint())
		case "connector":
			h.Connector = intern(d.connector, r.text())
			d.connector = h.Connector
		case "task":
			h.Task = int(r.uintMax(math.MaxInt32, "task"))
		default:
			r.skip()
		}
	}
	return h
}

// intern returns have if it equals s, which aliases a frame, else a copy of s.
func intern(have, s string) string {
	if have == s {
		return have
	}
	return string([]byte(s))
}

func (d *Decoder) readTopics(r *reader) int {
	n := r.array()
	for i := 0; i < n && r.err == nil; i++ {
		if i == len(d.topics) {
			d.topics = append(d.topics, topicKey{})
		}
		t := &d.topics[i]
		parts := r.array()
		if r.err == nil && parts == 0 {
			r.fail("topic without a name")
		}
		t.name, t.id = intern(t.name, r.text()), pluginapi.TopicID{}
		if parts > 1 && !r.null() {
			id := r.bytes()
			if r.err == nil && len(id) != len(t.id) {
				r.fail("topic id of %d bytes", len(id))
			}
			copy(t.id[:], id)
		}
		r.skipFrom(2, parts)
	}
	return n
}

// readSchemas reads the schemas, or keeps the ones there are if they are the
// same as last time.
func (d *Decoder) readSchemas(r *reader) {
	start := r.pos
	r.skip()
	if r.err != nil {
		return
	}
	raw := r.buf[start:r.pos]
	if string(raw) == string(d.rawSchemas) {
		return
	}
	own := reader{buf: append([]byte(nil), raw...)}
	d.schemas, d.rawSchemas = own.schemas(), own.buf
	if own.err != nil {
		d.schemas, d.rawSchemas = nil, nil
		r.pos, r.err = len(r.buf), own.err
	}
}

func (d *Decoder) readRecords(r *reader, topics int) {
	n := r.array()
	if cap(d.records) == 0 {
		d.records = make([]pluginapi.Record, 0, min(n, firstRoom))
	}
	for i := 0; i < n && r.err == nil; i++ {
		d.records = append(d.records, pluginapi.Record{})
		if rec := &d.records[i]; !d.readPlain(r, rec, topics) {
			d.readRecord(r, rec, topics)
		}
	}
}

// readPlain reads the record that nearly all are, in one go: key and value of
// bytes. Any other, whole or not, is left to readRecord with nothing read.
func (d *Decoder) readPlain(r *reader, rec *pluginapi.Record, topics int) bool {
	const (
		numbers = 5             // Before the key.
		room    = 1 + 9*numbers // What they take at most.
	)
	b := r.buf[r.pos:]
	if len(b) < room || b[0] != majorArray|7 && b[0] != majorArray|8 {
		return false
	}
	var number [numbers]int64
	at := 1
	for i := range number {
		major, n, next := smallHead(b, at)
		if n > math.MaxInt64 || next == 0 {
			return false
		}
		switch major {
		case majorUint:
			number[i] = int64(n)
		case majorNegint:
			number[i] = ^int64(n)
		default:
			return false
		}
		at = next
	}
	topic, partition, kind := number[0], number[1], number[4]
	if topic < 0 || topic >= int64(topics) || partition != int64(int32(partition)) || kind < 0 || kind > math.MaxUint8 {
		return false
	}
	key, at := plainDatum(b, at)
	if at == 0 {
		return false
	}
	value, at := plainDatum(b, at)
	if at == 0 {
		return false
	}
	t := &d.topics[topic]
	rec.Topic, rec.TopicID = t.name, t.id
	rec.Partition, rec.Offset, rec.TimestampType = int32(partition), number[2], pluginapi.TimestampType(kind)
	if rec.TimestampType != pluginapi.NoTimestamp {
		rec.Timestamp = time.UnixMilli(number[3]).UTC()
	}
	rec.Key, rec.Value = pluginapi.BytesDatum(key), pluginapi.BytesDatum(value)
	r.pos += at
	if b[0] == majorArray|8 {
		rec.Headers = d.readHeaders(r)
	}
	return true
}

// plainDatum reads bytes or null at b[at:]; next is 0 if there is something else.
func plainDatum(b []byte, at int) (datum []byte, next int) {
	if at < len(b) && b[at] == itemNull {
		return nil, at + 1
	}
	major, n, next := smallHead(b, at)
	if next == 0 || major != majorBytes || n > uint64(len(b)-next) {
		return nil, 0
	}
	end := next + int(n)
	return b[next:end:end], end
}

func (d *Decoder) readRecord(r *reader, rec *pluginapi.Record, topics int) {
	n := r.array()
	topic := r.uint()
	switch {
	case r.err != nil:
		return
	case n == 0:
		r.fail("record without a topic")
		return
	case topic >= uint64(topics):
		r.fail("topic number %d of %d", topic, topics)
		return
	}
	rec.Topic, rec.TopicID = d.topics[topic].name, d.topics[topic].id
	if n > 1 {
		p := r.int()
		if p != int64(int32(p)) {
			r.fail("partition %d is outside 32 bits", p)
		}
		rec.Partition = int32(p)
	}
	if n > 2 {
		rec.Offset = r.int()
	}
	var millis int64
	if n > 3 {
		millis = r.int()
	}
	if n > 4 {
		rec.TimestampType = pluginapi.TimestampType(r.uintMax(math.MaxUint8, "timestamp type"))
	}
	if rec.TimestampType != pluginapi.NoTimestamp {
		rec.Timestamp = time.UnixMilli(millis).UTC()
	}
	if n > 5 {
		rec.Key = d.datum(r)
	}
	if n > 6 {
		rec.Value = d.datum(r)
	}
	if n > 7 {
		rec.Headers = d.readHeaders(r)
	}
	r.skipFrom(8, n)
}

func (d *Decoder) readHeaders(r *reader) []pluginapi.Header {
	n := r.array()
	first := len(d.headers)
	for i := 0; i < n && r.err == nil; i++ {
		parts := r.array()
		if r.err == nil && parts == 0 {
			r.fail("header without a key")
		}
		header := pluginapi.Header{Key: r.text()}
		if parts > 1 {
			header.Value = d.datum(r)
		}
		r.skipFrom(2, parts)
		d.headers = append(d.headers, header)
	}
	return d.headers[first:len(d.headers):len(d.headers)]
}

// datum reads a datum: null, bytes, or a schema's number and a value.
func (d *Decoder) datum(r *reader) pluginapi.Datum {
	if r.null() {
		return pluginapi.Datum{}
	}
	if r.peek()&0xe0 == majorBytes {
		return pluginapi.BytesDatum(r.bytes())
	}
	n := r.array()
	if r.err == nil && n < 2 {
		r.fail("datum of %d elements", n)
	}
	if r.err != nil {
		return pluginapi.Datum{}
	}
	// Made in runs, and anew for each frame, as pointers to them are given away.
	if len(d.typed) == cap(d.typed) {
		d.typed = make([]data.Typed, 0, min(max(2*cap(d.typed), 8), firstRoom))
	}
	d.typed = d.typed[:len(d.typed)+1]
	t := &d.typed[len(d.typed)-1]
	t.Schema = r.schemaAt(d.schemas)
	t.Value = r.value(t.Schema, 0)
	r.skipFrom(2, n)
	return pluginapi.DataDatum(t)
}
