// Package s3 is the sink that writes records as objects into a bucket of Amazon S3 or of any server that speaks its protocol.
//
// The records of a batch are sorted into objects by the folder that the template key gives for each; one object holds one
// batch's records of one folder. The sink keeps nothing between puts: bigger objects come from bigger batches.
//
// # Delivery
//
// Records are accepted after the server confirmed their object. An object's name is made from the places in Kafka,
// timestamps and keys of the records in it, so the same records put again replace their object, and no other records can.
package s3
