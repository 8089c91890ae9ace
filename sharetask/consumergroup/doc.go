// Package consumergroup is the source of a task that reads as a member of a
// classic consumer group.
//
// [Source] uses sarama for the membership and the fetching, and commits itself,
// on connections of its own: a commit on the fetching connections would wait
// behind a fetch that waits for records, and the library does not say which
// commit succeeded.
//
// # Delivery
//
// A partition's position moves only over a gapless prefix of accepted (or
// rejected) records: what is committed never lies beyond a record that was
// released or is undecided. Offsets without a record, such as transaction
// markers, are not in the way. Records are reported as acknowledged when a
// commit has covered them. A partition read for the first time has its first
// position committed before anything else, so that a restart begins where the
// first start did, whatever the reset policy.
//
// # Topics made again
//
// Fetches and commits name topics, not ids. A topic that is deleted and made
// again under its name would be read on at the old position, so each position is
// committed with the topic's id as its metadata, and the leader is asked for the
// id before records are handed out: again after proofAge, and at once after a
// fetch was refused, as the one is that waits when its topic is deleted. Only
// where nothing was fetched just then (no room) can records of the new topic
// come under the old id, for proofAge at most; they come again under their own.
// What is held of a topic that is gone is lost, and the group is joined anew.
//
// # Rebalance
//
// The protocol is the eager one: a rebalance takes all partitions away. The
// source then asks the task to finish, waits until each record it handed out is
// decided or the group's patience is nearly over, commits, and only then lets
// the library rejoin.
package consumergroup
