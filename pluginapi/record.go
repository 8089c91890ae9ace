package pluginapi

import (
	"encoding/hex"
	"strconv"
	"time"
)

// TimestampType says who set a record's timestamp.
type TimestampType uint8

// The numbers are part of the ABI.
const (
	NoTimestamp   TimestampType = 0 // The record has none.
	CreateTime    TimestampType = 1 // Set by the producer.
	LogAppendTime TimestampType = 2 // Set by the broker.
)

// TopicID is Kafka's unique id of a topic. The zero value means unknown.
type TopicID [16]byte

// String returns the id as 32 hexadecimal digits.
func (id TopicID) String() string { return hex.EncodeToString(id[:]) }

// Record is one Kafka record. Topic, TopicID, Partition and Offset are where it
// was read and stay so when a transform renames its topic.
//
// The slices and values in a record belong to the host: a sink may read them
// during the call and must not keep or change them.
type Record struct {
	Topic         string
	TopicID       TopicID // Zero where the host does not know it.
	Partition     int32
	Offset        int64
	Timestamp     time.Time // Millisecond precision; the zero time with NoTimestamp.
	TimestampType TimestampType
	Key           Datum
	Value         Datum // Absent for a tombstone.
	Headers       []Header
}

// Header is one record header. Headers keep their order and may repeat.
type Header struct {
	Key   string
	Value Datum
}

// ID returns a key that is the same whenever this record is put again, for
// targets that can refuse or fold duplicates: "TOPICID/PARTITION/OFFSET", with
// the topic's name where its id is not known.
func (r *Record) ID() string {
	var buf [96]byte
	b := buf[:0]
	if r.TopicID != (TopicID{}) {
		b = hex.AppendEncode(b, r.TopicID[:])
	} else {
		b = append(b, r.Topic...)
	}
	b = append(b, '/')
	b = strconv.AppendInt(b, int64(r.Partition), 10)
	b = append(b, '/')
	b = strconv.AppendInt(b, r.Offset, 10)
	return string(b)
}

// Header returns the value of the last header named key, and whether there is one.
func (r *Record) Header(key string) (Datum, bool) {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		if r.Headers[i].Key == key {
			return r.Headers[i].Value, true
		}
	}
	return Datum{}, false
}
