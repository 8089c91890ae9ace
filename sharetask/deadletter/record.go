package deadletter

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/internal/kafka/confirm"
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

// maxReturns is how many dead letters of one group a record may be: who writes
// them back to the topic after a repair does so a few times, a dead letter queue
// that feeds the group does so without end.
const maxReturns = 10

// returned says why r is not to be dead-lettered once more: it was too often.
func returned(r *pluginapi.Record, group string) error {
	n := 0
	for i := range r.Headers {
		if v, _ := r.Headers[i].Value.Bytes(); r.Headers[i].Key == headerGroup && string(v) == group {
			n++
		}
	}
	if n < maxReturns {
		return nil
	}
	return fmt.Errorf("its headers say that group %s has dead-lettered it %d times: it comes back, over the dead letter queue of "+
		"this connector or another's, or by hand; end that, and take the headers %s off what is to be tried again", group, n, headerGroup)
}

// source is who gave up on a record.
type source struct {
	connector, group, sink string
	task                   int
}

// message builds the letter as a record. Everything is copied:
// the record's memory may be used again when Write has returned.
func message(l *sharetask.DeadLetter, s source, f confirm.Form) *kgo.Record {
	r := l.Record
	m := confirm.Original(r, f)
	if r.TimestampType != pluginapi.NoTimestamp && !f.Now {
		m.Timestamp = r.Timestamp
	}
	m.Headers = append(m.Headers, headers(l, s, f)...)
	return m
}

func headers(l *sharetask.DeadLetter, s source, f confirm.Form) []kgo.RecordHeader {
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
	switch f.Omit {
	case confirm.Nothing:
	case confirm.Value:
		add(headerValueOmitted, omitted(r, f.MaxedBytes))
	case confirm.All:
		add(headerValueOmitted, omitted(r, f.MaxedBytes))
		add(headerRecordOmitted, omitted(r, f.MaxedBytes))
	}
	if f.Now && r.TimestampType != pluginapi.NoTimestamp {
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
