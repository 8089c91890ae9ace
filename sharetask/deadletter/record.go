package deadletter

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

// Kafka Connect's headers.
const (
	headerTopic          = "__connect.errors.topic"
	headerPartition      = "__connect.errors.partition"
	headerOffset         = "__connect.errors.offset"
	headerConnector      = "__connect.errors.connector.name"
	headerTask           = "__connect.errors.task.id"
	headerStage          = "__connect.errors.stage"
	headerClassName      = "__connect.errors.class.name"
	headerExceptionClass = "__connect.errors.exception.class.name"
	headerMessage        = "__connect.errors.exception.message"
)

// Our own headers.
const (
	headerClass         = "__sluice.errors.class"
	headerCode          = "__sluice.errors.code"
	headerDeliveryCount = "__sluice.errors.delivery.count"
	headerGroup         = "__sluice.errors.group"
	headerValueOmitted  = "__sluice.errors.value.omitted"
	headerRecordOmitted = "__sluice.errors.record.omitted"
	headerTimestamp     = "__sluice.errors.timestamp"
)

// Texts from outside are cut to this length in a header.
const (
	maxMessageBytes = 4 << 10
	maxCodeBytes    = 256
)

// form is how much of a record is written, and how.
type form struct {
	alone      bool // In a batch of its own: others must not suffer for it.
	omit       omission
	now        bool // Under the time of writing instead of its own.
	maxedBytes int  // Size of the record when it was found too large, for the header.
}

// omission is what is left out of a record that is too large.
type omission uint8

const (
	nothing omission = iota
	value
	all // Value, key and headers.
)

// source is who gave up on a record.
type source struct {
	connector, group, sink string
	task                   int
}

// message builds the letter as a record for topic. Everything is copied:
// the record's memory may be used again when Write has returned.
func message(l *sharetask.DeadLetter, topic string, s source, f form) *kgo.Record {
	r := l.Record
	m := &kgo.Record{Topic: topic, Partition: r.Partition}
	if r.TimestampType != pluginapi.NoTimestamp && !f.now {
		m.Timestamp = r.Timestamp
	}
	if f.omit != all {
		m.Key = copied(r.Key)
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kgo.RecordHeader{Key: h.Key, Value: copied(h.Value)})
		}
	}
	if f.omit == nothing {
		m.Value = copied(r.Value)
	}
	m.Headers = append(m.Headers, headers(l, s, f)...)
	return m
}

// copied returns a copy of d's bytes, nil only if d is absent: a null.
func copied(d pluginapi.Datum) []byte {
	if d.IsAbsent() {
		return nil
	}
	if b, ok := d.Bytes(); ok {
		return append(make([]byte, 0, len(b)), b...)
	}
	return d.AppendText([]byte{}) // As acquired it is bytes; a converted one still tells more than none.
}

func headers(l *sharetask.DeadLetter, s source, f form) []kgo.RecordHeader {
	r := l.Record
	h := make([]kgo.RecordHeader, 0, 16)
	add := func(key, text string) {
		h = append(h, kgo.RecordHeader{Key: key, Value: []byte(strings.ToValidUTF8(text, "\uFFFD"))})
	}
	add(headerTopic, r.Topic)
	add(headerPartition, strconv.Itoa(int(r.Partition)))
	add(headerOffset, strconv.FormatInt(r.Offset, 10))
	add(headerConnector, s.connector)
	add(headerTask, strconv.Itoa(s.task))
	add(headerStage, string(l.Stage))
	running := string(l.Stage)
	if l.Stage == sharetask.StagePut && s.sink != "" {
		running = s.sink
	}
	add(headerClassName, running)
	add(headerExceptionClass, "sluice."+l.Class.String())
	add(headerMessage, cut(l.Message, maxMessageBytes))
	add(headerClass, l.Class.String())
	if l.Code != "" {
		add(headerCode, cut(l.Code, maxCodeBytes))
	}
	if l.DeliveryCount > 0 {
		add(headerDeliveryCount, strconv.Itoa(l.DeliveryCount))
	}
	add(headerGroup, s.group)
	switch f.omit {
	case nothing:
	case value:
		add(headerValueOmitted, omitted(r, f.maxedBytes))
	case all:
		add(headerValueOmitted, omitted(r, f.maxedBytes))
		add(headerRecordOmitted, omitted(r, f.maxedBytes))
	}
	if f.now && r.TimestampType != pluginapi.NoTimestamp {
		add(headerTimestamp, strconv.FormatInt(r.Timestamp.UnixMilli(), 10))
	}
	return h
}

func omitted(r *pluginapi.Record, size int) string {
	topic := strconv.Quote(r.Topic)
	if r.TopicID != (pluginapi.TopicID{}) {
		topic += " (id " + r.TopicID.String() + ")"
	}
	return fmt.Sprintf("the record of %d bytes is too large for this topic; the original is topic %s, partition %d, offset %d",
		size, topic, r.Partition, r.Offset)
}

// cut shortens text to at most n bytes, at a character's border.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// size returns the bytes a record's key, value and headers take.
func size(m *kgo.Record) int {
	n := len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
