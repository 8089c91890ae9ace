package s3

import (
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

const (
	formatJSONLines = "json_lines"

	compressionNone = "none"
	compressionGzip = "gzip"

	checksumCRC32 = "crc32"
	checksumNone  = "none"

	minPartSize     = 5 << 20
	maxPartSize     = 512 << 20
	defaultPartSize = 16 << 20
	defaultUploads  = 4
	defaultTimeout  = time.Minute
)

const documentation = `Writes the records of a batch as objects: one for each folder that **key** gives.

**key** is a template for the folder, such as ` + "`events/{topic}/{timestamp:2006/01/02}`" + `. What a placeholder fills in is one level
of it: slashes, percent signs, control characters and the like in it are written as %2F and so on, as Hive does, and a lone "."
or ".." as %2E or %2E%2E. A record that lacks what the template names, or whose key would be longer than 1,024 bytes, is rejected.

The name in the folder is TOPIC-PARTITION-OFFSET-COUNT-HASH and an extension: partition and offset are those of the object's
first record, with zeros in front so that names sort; the hash is over the places, timestamps and keys of all its records. The same records make the
same name; that is what lets a batch that is put again replace what may have been stored, and only that. An application that
needs each record once goes by topic, partition and offset (**include**).

Objects above **part_size** go up in parts. An upload that fails is aborted; a worker that is killed may leave parts behind
that cost money unseen: give the bucket a lifecycle rule with AbortIncompleteMultipartUpload.

With compression an object is one gzip stream. The header Content-Encoding is not set by itself, since many clients would
then unpack it unasked.

Credentials: access_key_id and secret_access_key, or what the AWS SDK finds in the environment, its files or the machine's role.`

// Plugin describes the sink.
func Plugin() pluginapi.Plugin {
	const bucket, object, credentials, limits = "Bucket", "Objects", "Credentials", "Limits"
	return pluginapi.Plugin{
		Name:          "s3",
		Version:       "0.1.0",
		Summary:       "Writes records as objects of JSON lines into an S3 bucket.",
		Documentation: documentation,
		Form:          pluginapi.FormData,
		New:           func() pluginapi.Sink { return new(sink) },
		Settings: []pluginapi.Setting{
			{Name: "bucket", Type: pluginapi.String, Required: true, Group: bucket, Help: "Name of the bucket; it must exist."},
			{Name: "region", Type: pluginapi.String, Group: bucket, Help: "Region of the bucket; by default the SDK's, and us-east-1 with an endpoint."},
			{Name: "endpoint", Type: pluginapi.String, Group: bucket, Help: "URL of a server other than Amazon's."},
			{Name: "path_style", Type: pluginapi.Bool, Group: bucket, Help: "Put the bucket's name into the path, not the host's name; true by default with an endpoint."},
			{Name: "key", Type: pluginapi.String, Required: true, Template: true, Group: object, Help: "Folder of the objects, from the record."},
			{Name: "format", Type: pluginapi.String, Default: formatJSONLines, Allowed: []string{formatJSONLines}, Group: object, Help: "How records are written."},
			{
				Name: "include", Type: pluginapi.List, Group: object,
				Allowed: []string{"topic", "partition", "offset", "timestamp", "key", "headers"},
				Help:    "What a line has beside the value; with any of it a line is an object.",
			},
			{
				Name: "compression", Type: pluginapi.String, Default: compressionNone, Allowed: []string{compressionNone, compressionGzip},
				Group: object, Help: "Compression of the objects.",
			},
			{Name: "extension", Type: pluginapi.String, Group: object, Help: "End of the objects' names; .jsonl, or .jsonl.gz with gzip."},
			{Name: "content_type", Type: pluginapi.String, Group: object, Help: "Content-Type of the objects; application/x-ndjson, or application/gzip with gzip."},
			{Name: "content_encoding", Type: pluginapi.String, Group: object, Help: "Content-Encoding of the objects; none by default."},
			{Name: "storage_class", Type: pluginapi.String, Group: object, Help: "Storage class of the objects; the bucket's by default."},
			{
				Name: "server_side_encryption", Type: pluginapi.String, Allowed: []string{"AES256", "aws:kms", "aws:kms:dsse"},
				Group: object, Help: "Encryption at the server; the bucket's by default.",
			},
			{Name: "kms_key_id", Type: pluginapi.String, Group: object, Help: "Key of the encryption aws:kms."},
			{
				Name: "checksum", Type: pluginapi.String, Default: checksumCRC32, Allowed: []string{checksumCRC32, checksumNone},
				Group: object, Help: "Checksum sent along; none for old servers that do not take one.",
			},
			{Name: "access_key_id", Type: pluginapi.String, Group: credentials, Help: "Access key; without it the SDK looks for one."},
			{Name: "secret_access_key", Type: pluginapi.String, Secret: true, Group: credentials, Help: "Secret of the access key."},
			{Name: "session_token", Type: pluginapi.String, Secret: true, Group: credentials, Help: "Session token of a temporary access key."},
			{
				Name: "part_size", Type: pluginapi.Bytes, Default: int64(defaultPartSize), Min: pluginapi.Limit(minPartSize), Max: pluginapi.Limit(maxPartSize),
				Group: limits, Help: "Size from which an object goes up in parts, and of a part; each upload holds one in memory.",
			},
			{
				Name: "uploads", Type: pluginapi.Int, Default: int64(defaultUploads), Min: pluginapi.Limit(1), Max: pluginapi.Limit(64),
				Group: limits, Help: "Most objects of a batch that go up at once.",
			},
			{
				Name: "request_timeout", Type: pluginapi.Duration, Default: defaultTimeout,
				Min: pluginapi.LimitDuration(time.Second), Max: pluginapi.LimitDuration(time.Hour),
				Group: limits, Help: "How long one request may take, its own repetitions included.",
			},
		},
	}
}
