package s3

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluicehq/sluice/pluginapi"
)

const (
	// maxParts is how many parts an object may have.
	maxParts = 10000
	// abortTimeout bounds the abort of an upload, which is also done when the put's time is over.
	abortTimeout = 10 * time.Second
)

// upload is one object on its way: small ones go up at the end, in one request, others part by part. What is in memory is
// never more than one part and the line that overran it.
type upload struct {
	client   *s3.Client
	settings *settings
	key      string
	buf      bytes.Buffer
	gzip     *gzip.Writer // nil without compression.
	id       *string      // Of an upload in parts, nil before the first.
	parts    []types.CompletedPart
}

func newUpload(client *s3.Client, s *settings, key string) *upload {
	u := &upload{client: client, settings: s, key: key}
	if s.gzip {
		u.gzip = gzip.NewWriter(&u.buf)
	}
	return u
}

// write adds a line.
func (u *upload) write(ctx context.Context, line []byte) *pluginapi.Error {
	w := io.Writer(&u.buf)
	if u.gzip != nil {
		w = u.gzip
	}
	if _, err := w.Write(line); err != nil {
		return pluginapi.AsError(err, pluginapi.Transient) // A buffer takes everything.
	}
	if u.buf.Len() < u.settings.partSize {
		return nil
	}
	return u.part(ctx)
}

// finish stores the object and returns once the server confirmed it.
func (u *upload) finish(ctx context.Context) *pluginapi.Error {
	if u.gzip != nil {
		if err := u.gzip.Close(); err != nil {
			return pluginapi.AsError(err, pluginapi.Transient)
		}
	}
	if u.id == nil {
		return u.whole(ctx)
	}
	if u.buf.Len() > 0 {
		if err := u.part(ctx); err != nil {
			return err
		}
	}
	request, cancel := context.WithTimeout(ctx, u.settings.timeout)
	defer cancel()
	out, err := u.client.CompleteMultipartUpload(request, &s3.CompleteMultipartUploadInput{
		Bucket: &u.settings.bucket, Key: &u.key, UploadId: u.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: u.parts},
	})
	if err != nil {
		return classify(request, "complete upload", err)
	}
	if aws.ToString(out.ETag) == "" {
		// The status is sent before the work is done; an answer without the object's tag is cut short.
		return pluginapi.NewError(pluginapi.Transient, "incomplete_answer", "complete upload: the server did not confirm the object")
	}
	u.id = nil
	return nil
}

// whole stores an object in one request.
func (u *upload) whole(ctx context.Context) *pluginapi.Error {
	request, cancel := context.WithTimeout(ctx, u.settings.timeout)
	defer cancel()
	in := &s3.PutObjectInput{
		Bucket: &u.settings.bucket, Key: &u.key, Body: bytes.NewReader(u.buf.Bytes()),
		ContentType: &u.settings.contentType, ContentEncoding: optional(u.settings.encoding),
		StorageClass:         types.StorageClass(u.settings.storageClass),
		ServerSideEncryption: types.ServerSideEncryption(u.settings.encryption), SSEKMSKeyId: optional(u.settings.kmsKey),
	}
	if u.settings.checksum {
		in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32
	}
	if _, err := u.client.PutObject(request, in); err != nil {
		return classify(request, "put object", err)
	}
	return nil
}

// part sends what is in the buffer as the next part.
func (u *upload) part(ctx context.Context) *pluginapi.Error {
	request, cancel := context.WithTimeout(ctx, u.settings.timeout)
	defer cancel()
	if u.id == nil {
		in := &s3.CreateMultipartUploadInput{
			Bucket: &u.settings.bucket, Key: &u.key,
			ContentType: &u.settings.contentType, ContentEncoding: optional(u.settings.encoding),
			StorageClass:         types.StorageClass(u.settings.storageClass),
			ServerSideEncryption: types.ServerSideEncryption(u.settings.encryption), SSEKMSKeyId: optional(u.settings.kmsKey),
		}
		if u.settings.checksum {
			in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32
		}
		out, err := u.client.CreateMultipartUpload(request, in)
		if err != nil {
			return classify(request, "begin upload", err)
		}
		u.id = out.UploadId
	}
	number := int32(len(u.parts) + 1)
	if number > maxParts {
		return pluginapi.NewError(pluginapi.Fatal, "too_large", "the object has too many parts; set a larger part_size or smaller batches")
	}
	in := &s3.UploadPartInput{
		Bucket: &u.settings.bucket, Key: &u.key, UploadId: u.id, PartNumber: &number, Body: bytes.NewReader(u.buf.Bytes()),
	}
	if u.settings.checksum {
		in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32
	}
	out, err := u.client.UploadPart(request, in)
	if err != nil {
		return classify(request, "upload part", err)
	}
	u.parts = append(u.parts, types.CompletedPart{ETag: out.ETag, PartNumber: &number, ChecksumCRC32: out.ChecksumCRC32})
	u.buf.Reset()
	return nil
}

// abort gives up an upload in parts that was not finished. It returns nil if there is none.
func (u *upload) abort(ctx context.Context) error {
	if u.id == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	_, err := u.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &u.settings.bucket, Key: &u.key, UploadId: u.id})
	if err != nil && classify(ctx, "abort upload", err).Code == "NoSuchUpload" {
		return nil // It was completed after all, or is gone.
	}
	return err
}

// optional returns nil for an empty text, which the SDK leaves out.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
