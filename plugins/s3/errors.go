package s3

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/sluicehq/sluice/pluginapi"
)

// maxMessage bounds the text of an error in bytes.
const maxMessage = 600

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = time.Hour

// classify returns an error of the SDK as one of ours. do says what was tried.
func classify(ctx context.Context, do string, err error) *pluginapi.Error {
	var response *awshttp.ResponseError
	status, header := 0, http.Header(nil)
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
		if response.Response != nil && response.Response.Response != nil {
			header = response.Response.Header
		}
	}
	code, message := "", err.Error()
	var api smithy.APIError
	if errors.As(err, &api) {
		code, message = api.ErrorCode(), api.ErrorMessage()
	}
	switch {
	case code == "" && status != 0:
		code = strconv.Itoa(status)
	case code == "" && (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)):
		code, message = "timeout", "the server did not answer in time"
	case code == "":
		code = "connection"
	}
	if message == "" {
		message = "the server answered " + code
	}
	if len(message) > maxMessage {
		message = message[:maxMessage] + "…"
	}
	out := pluginapi.NewError(class(code, status), code, do+": "+message)
	if out.Class == pluginapi.Throttled {
		out.RetryAfter = retryAfter(header)
	}
	return out
}

// class decides by the code of the server and, for codes not named here, by the status.
func class(code string, status int) pluginapi.Class {
	switch code {
	case "NoSuchBucket", "NotFound", "InvalidBucketName", "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException",
		"InvalidStorageClass", "InvalidEncryptionAlgorithmError", "NotImplemented":
		return pluginapi.Fatal
	case "SlowDown", "SlowDownWrite", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests", "ServiceUnavailable", "BandwidthLimitExceeded":
		return pluginapi.Throttled
	case "AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken",
		"RequestTimeTooSkewed", "NotSignedUp", "XAdminUserNotFound", "InsufficientStorage", "XMinioStorageFull", "QuotaExceeded":
		return pluginapi.Unavailable
	case "RequestTimeout", "InternalError", "OperationAborted", "ConditionalRequestConflict", "NoSuchUpload", "InvalidPart", "BadDigest", "IncompleteBody", "timeout", "connection":
		return pluginapi.Transient
	}
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return pluginapi.Throttled
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired, status == http.StatusInsufficientStorage:
		return pluginapi.Unavailable
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusPreconditionFailed:
		return pluginapi.Transient
	case status == http.StatusNotImplemented:
		return pluginapi.Fatal
	case status >= 300 && status < 500:
		// The request is wrong, not a record in it: a region, an option the server does not know.
		return pluginapi.Fatal
	default:
		return pluginapi.Transient
	}
}

// retryAfter reads the header of that name, 0 without one.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}
