// Package parking lets records that have to wait do so in a topic of their
// own, the retry topic, so that they do not hold the record-lock window of the
// partition they came from. [Topic] writes them, and [Join] makes one source
// of the connector's and the one that reads the retry topic.
//
// A parked record is the original one, key, value and headers as they were
// read, on the same partition modulo the retry topic's, at the time of parking,
// with headers after its own. All values are text, times are in milliseconds
// since 1970.
//
//	__sluice.retry.group            the group it was read in
//	__sluice.retry.topic            where it was read
//	__sluice.retry.topic.id         32 hexadecimal digits
//	__sluice.retry.partition
//	__sluice.retry.offset
//	__sluice.retry.timestamp        its own
//	__sluice.retry.timestamp.type   0 none, 1 CreateTime, 2 LogAppendTime
//	__sluice.retry.not.before       when it may be put again
//	__sluice.retry.first.failure    when it failed first
//	__sluice.retry.attempts         how often it failed
//	__sluice.retry.spent.ms         what counts towards retry.max_elapsed
package parking
