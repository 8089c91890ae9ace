// Package deadletter writes records given up on to a Kafka topic. Its main
// type is [Queue], whose [Queue.Task] is a task's dead letter queue.
//
// A dead letter is the original record (key, value, headers, timestamp, as
// they were read) on the same partition modulo the topic's, with headers after
// its own: those of Kafka Connect, so that existing tools work, and a few of
// ours. All values are UTF-8 text.
//
//	__connect.errors.topic                   where it was read
//	__connect.errors.partition
//	__connect.errors.offset
//	__connect.errors.connector.name          who gave up on it
//	__connect.errors.task.id
//	__connect.errors.stage                   KEY_CONVERTER … TASK_PUT
//	__connect.errors.class.name              what was running: the sink's name, or the stage
//	__connect.errors.exception.class.name    "sluice." and the error's class
//	__connect.errors.exception.message       the error's text
//	__sluice.errors.class                    the error's class
//	__sluice.errors.code                     its code; left out where there is none
//	__sluice.errors.delivery.count           deliveries of the record; left out in a consumer group
//	__sluice.errors.group                    the connector's group
//	__sluice.errors.value.omitted            only on a record too large for the topic: why its value is
//	                                         missing, and where the original is
//	__sluice.errors.record.omitted           the same, where key and headers had to go as well
//	__sluice.errors.timestamp                only where the topic refuses the original timestamp: that one,
//	                                         in milliseconds since 1970
//
// # Delivery
//
// As package [github.com/sluicehq/sluice/internal/kafka/confirm] writes. The
// package makes no topic and acknowledges no record.
package deadletter
