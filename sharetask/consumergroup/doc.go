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
// # Rebalance
//
// The protocol is the eager one: a rebalance takes all partitions away. The
// source then asks the task to finish, waits until each record it handed out is
// decided or the group's patience is nearly over, commits, and only then lets
// the library rejoin.
package consumergroup
