// Package bench measures Sluice beside others on a real Kafka broker: "make bench". Each variant of a scenario is a process of its
// own, run in turns (A B C A B C ...) with a new group each time, on the same topics. Single figures depend on the machine and the
// hour; the ratios of one round to another variant of the same round are what counts. Results go to docs/benchmarks.md.
//
// It is a test, because test/kafkatest starts brokers for tests; without -scenarios it is skipped. Sluice is driven as a user
// drives it: definitions, "sluice run", its metrics and its log.
package bench
