// Package kafka is the only place that knows how one connection definition
// becomes either Kafka client, and the only one that administers topics,
// groups and group configs.
//
// [Connection] maps to a sarama configuration and to franz-go options; a test
// connects with both for every kind of security. [Admin] asks and changes
// what a connector needs before it joins its group: topics, the group's kind,
// its configs, its first positions, the dead letter topic. Nothing here reads
// or writes a record.
//
// # Errors
//
// What fails at the broker or on the way to it is an [*Error] whose kind
// callers branch on with errors.Is: [ErrUnreachable], [ErrAuth], [ErrTLS],
// [ErrDenied], [ErrUnsupported], [ErrUnknownTopic], [ErrTopicExists]. The
// broker's own text is always kept.
package kafka
