// Package recordbatch decodes the records of one partition of a ShareFetch
// response, Kafka record batches of magic 2, into [pluginapi.Record]s without a
// copy and without an allocation per record: keys, values and header values are
// slices of the response or of a decompressed batch.
//
// # What becomes of an acquired offset
//
// Every acquired offset comes back exactly once: as a record, in a gap, or among
// the lost. The difference between the last two is the one that matters. A gap
// is acknowledged as such and the broker never delivers the offset again, so an
// offset is called a gap only where these bytes prove that no record has it:
//
//   - it lies between the first and the last offset of a complete batch whose
//     checksum is right and whose records were all decoded, and none has it;
//   - it lies in a control batch whose checksum is right;
//   - it lies between two neighbouring batches whose checksums are right, where
//     compaction or a deletion removed whole batches: a broker answers with one
//     contiguous piece of the log;
//   - it lies before the first batch, and that batch's checksum is right: a broker
//     reads from the batch that has the offset asked for, or else from the next.
//
// All else is lost: offsets of a batch that cannot be decoded, offsets next to a
// batch whose checksum is wrong (the checksum covers the batch's last offset, so
// nobody knows where such a batch ends), and offsets after the last complete
// batch, which the broker may have cut off. The checksum does not cover a batch's
// first offset, which is why batches that are not in the order of their offsets
// make the whole answer worthless: one of them
// lies about where it is.
//
// A batch without an acquired offset is checked, for its neighbours' sake, but
// not decompressed.
package recordbatch
