package parking

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/internal/kafka/confirm"
	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

// The headers, which are the last of a parked record's, in this order.
const (
	headerGroup = iota
	headerTopic
	headerTopicID
	headerPartition
	headerOffset
	headerTimestamp
	headerTimestampType
	headerNotBefore
	headerFirstFailure
	headerAttempts
	headerSpent
	headers
)

const prefix = "__sluice.retry."

// names returns the headers' names after their prefix.
func names() [headers]string {
	return [headers]string{"group", "topic", "topic.id", "partition", "offset", "timestamp", "timestamp.type", "not.before", "first.failure", "attempts", "spent.ms"}
}

// message makes the record for the retry topic. Everything is copied.
func message(p *sharetask.Parked, group string) *kgo.Record {
	o, m := &p.Origin, confirm.Original(p.Record, confirm.Form{})
	texts := [headers]string{
		group, o.Topic, hex.EncodeToString(o.TopicID[:]), decimal(int64(o.Partition)), decimal(o.Offset),
		decimal(millis(o.Timestamp)), decimal(int64(o.TimestampType)), decimal(millis(o.Due)), decimal(millis(o.Since)),
		decimal(int64(o.Attempts)), decimal(o.Spent.Milliseconds()),
	}
	for i, name := range names() {
		m.Headers = append(m.Headers, kgo.RecordHeader{Key: prefix + name, Value: []byte(texts[i])})
	}
	return m
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// unpark takes our headers off r and returns what they say. A record without
// them, or with others, has an Origin with an error and stays as it is.
func unpark(r *pluginapi.Record, group string) sharetask.Origin {
	own := len(r.Headers) - headers
	if own < 0 {
		return sharetask.Origin{Err: errors.New("the record was not written by Sluice: its retry headers are missing")}
	}
	p := parser{headers: r.Headers[own:]}
	o := sharetask.Origin{
		Topic:         p.text(headerTopic, 249),
		TopicID:       p.id(headerTopicID),
		Partition:     int32(p.number(headerPartition, 0, math.MaxInt32)), //nolint:gosec // In its range.
		Offset:        p.number(headerOffset, 0, math.MaxInt64),
		TimestampType: pluginapi.TimestampType(p.number(headerTimestampType, 0, int64(pluginapi.LogAppendTime))), //nolint:gosec // In its range.
		Due:           time.UnixMilli(p.number(headerNotBefore, 0, math.MaxInt64)),
		Since:         time.UnixMilli(p.number(headerFirstFailure, 0, math.MaxInt64)),
		Attempts:      int(p.number(headerAttempts, 1, math.MaxInt32)),
		Spent:         time.Duration(p.number(headerSpent, 0, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond,
	}
	if at := p.number(headerTimestamp, math.MinInt64, math.MaxInt64); o.TimestampType != pluginapi.NoTimestamp {
		o.Timestamp = time.UnixMilli(at)
	}
	if by := p.text(headerGroup, 249); p.err == nil && by != group {
		p.fail(fmt.Errorf("the record was parked by group %q: a retry topic belongs to one connector", by))
	}
	if p.err != nil {
		return sharetask.Origin{Err: p.err}
	}
	r.Headers = r.Headers[:own:own]
	return o
}

// parser reads headers and keeps the first error.
type parser struct {
	headers []pluginapi.Header
	err     error
}

// text returns the value of header i, which has from 1 to most bytes.
func (p *parser) text(i, most int) string {
	h := p.headers[i]
	b, _ := h.Value.Bytes()
	if name := prefix + names()[i]; h.Key != name {
		p.fail(fmt.Errorf("the record was not written by Sluice: header %s is missing", name))
	} else if len(b) == 0 || len(b) > most {
		p.fail(fmt.Errorf("header %s has %d bytes, from 1 to %d belong there", name, len(b), most))
	} else {
		return string(b)
	}
	return ""
}

func (p *parser) number(i int, least, most int64) int64 {
	text := p.text(i, 20)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		p.fail(fmt.Errorf("header %s%s is %q, a number from %d to %d belongs there", prefix, names()[i], text, least, most))
		return 0
	}
	return n
}

func (p *parser) id(i int) (id pluginapi.TopicID) {
	text := p.text(i, 2*len(id))
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		p.fail(fmt.Errorf("header %s%s is %q, %d hexadecimal digits belong there", prefix, names()[i], text, 2*len(id)))
		return id
	}
	copy(id[:], b)
	return id
}

func (p *parser) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}
