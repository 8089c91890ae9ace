// Package chaos breaks things while records flow, and then accounts for every record: "make chaos".
//
// A run starts three Kafka brokers, three "sluice run" processes with one share-group connector, and a target. Proxies stand between
// the workers and everything they talk to. While numbered records are produced, a schedule made from a seed kills, stops and cuts
// things; see [Kind]. Then all is healed, the group drains, the workers stop in order, and [Tally] says of each confirmed record
// where it ended. A record that ended nowhere, a good one that was dead-lettered, or one that is in two places without a fault to
// blame fails the run.
//
// With the kafka sink ([Plan]) the connector writes to a topic of the same cluster, exactly once. There is no target then: what is
// committed in the output and in the dead letter topic is accounted for, and no fault is a reason for a record to be in two places.
// Workers that are linked without the rule that makes it so show that the accounts would tell.
//
// It is a test, because test/kafkatest starts brokers for tests. Without flags it is a short run with a fixed seed.
package chaos
