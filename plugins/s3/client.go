package s3

import (
	"context"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
)

// The SDK repeats a request a little, for what passes at once; the host does what takes longer.
const (
	requestAttempts = 3
	maxBackoff      = 2 * time.Second
)

// newClient returns a client. It reads the environment and the SDK's files and connects to nothing.
func newClient(ctx context.Context, s *settings) (*s3.Client, *http.Transport, error) {
	transport := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConnsPerHost = s.uploads
	})
	checksum := aws.RequestChecksumCalculationWhenRequired
	if s.checksum {
		checksum = aws.RequestChecksumCalculationWhenSupported
	}
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(transport),
		config.WithLogger(logging.Nop{}),
		config.WithRequestChecksumCalculation(checksum),
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts, o.MaxBackoff = requestAttempts, maxBackoff
				// Its bucket would be empty after an outage, when the host's first try is the one that counts.
				o.RateLimiter = ratelimit.None
			})
		}),
	}
	if s.region != "" {
		options = append(options, config.WithRegion(s.region))
	}
	if s.accessKey != "" {
		options = append(options, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(s.accessKey, s.secretKey, s.sessionTkn)))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, nil, err
	}
	client := s3.NewFromConfig(loaded, func(o *s3.Options) {
		o.UsePathStyle = s.pathStyle
		o.DisableLogOutputChecksumValidationSkipped = true
		if s.endpoint != "" {
			o.BaseEndpoint = aws.String(s.endpoint)
		}
	})
	return client, transport.GetTransport(), nil
}
