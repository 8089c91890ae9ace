// Package kafkatest starts real Apache Kafka brokers for tests, from the jars that "make test-deps" puts into
// .cache/kafka at the root of the repository. The main type is [Cluster]: [Shared] gives the one-broker cluster all tests of a
// process use, [New] one of a test's own, with several brokers, other settings, or listeners with TLS and SASL.
//
// A test that needs Kafka on a machine without Java or without the jars is skipped in one line, or fails if
// SLUICE_TEST_REQUIRE says so (package require).
//
// # Processes
//
// Brokers listen on 127.0.0.1 only. They end with the test that made them, and at the latest with the test process, also when
// that is killed (on Linux). At most [DefaultSlots] test processes of a machine run brokers at the same time; the others wait.
//
// # Environment
//
//	SLUICE_KAFKA_LIBS   folder of the jars, instead of .cache/kafka/VERSION/libs
//	SLUICE_KAFKA_SLOTS  test processes that may run brokers at the same time
//
// It is not the broker of "sluice dev", which is embedded and needs no Java.
package kafkatest
