package s3

import (
	"fmt"
	"net/url"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/plugins/internal/jsonlines"
)

// settings are the sink's settings, checked and with their defaults.
type settings struct {
	bucket, region, endpoint         string
	pathStyle                        bool
	key                              *keyTemplate
	format                           *jsonlines.Format
	gzip                             bool
	extension, contentType, encoding string
	storageClass, encryption, kmsKey string
	checksum                         bool
	accessKey, secretKey, sessionTkn string
	partSize                         int
	uploads                          int
	timeout                          time.Duration
}

func invalid(format string, args ...any) *pluginapi.Error {
	return pluginapi.NewError(pluginapi.Invalid, "settings", fmt.Sprintf(format, args...))
}

func readSettings(cfg pluginapi.Config) (settings, error) {
	s := settings{
		bucket: cfg.String("bucket"), region: cfg.String("region"), endpoint: cfg.String("endpoint"),
		pathStyle: cfg.Bool("path_style"),
		gzip:      cfg.String("compression") == compressionGzip,
		extension: cfg.String("extension"), contentType: cfg.String("content_type"), encoding: cfg.String("content_encoding"),
		storageClass: cfg.String("storage_class"), encryption: cfg.String("server_side_encryption"), kmsKey: cfg.String("kms_key_id"),
		checksum:  cfg.String("checksum") != checksumNone,
		accessKey: cfg.String("access_key_id"), secretKey: cfg.String("secret_access_key"), sessionTkn: cfg.String("session_token"),
		partSize: int(cfg.Int("part_size")), uploads: int(cfg.Int("uploads")), timeout: cfg.Duration("request_timeout"),
	}
	if s.bucket == "" {
		return settings{}, invalid("bucket is empty")
	}
	if s.endpoint != "" {
		u, err := url.Parse(s.endpoint)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
			return settings{}, invalid("endpoint: want a URL such as https://s3.example.com, without user and password")
		}
		if s.region == "" {
			s.region = "us-east-1"
		}
		if !cfg.Has("path_style") {
			s.pathStyle = true
		}
	}
	if (s.accessKey == "") != (s.secretKey == "") {
		return settings{}, invalid("access_key_id and secret_access_key go together; set both or none")
	}
	if s.sessionTkn != "" && s.accessKey == "" {
		return settings{}, invalid("session_token belongs to access_key_id and secret_access_key")
	}
	var err error
	if s.key, err = parseKey(cfg.String("key")); err != nil {
		return settings{}, invalid("key: %v", err)
	}
	if s.format, err = jsonlines.New(cfg.Strings("include")); err != nil {
		return settings{}, invalid("%v", err)
	}
	s.defaults(cfg)
	return s, nil
}

// defaults fills in what depends on other settings or was left out.
func (s *settings) defaults(cfg pluginapi.Config) {
	extension, contentType := ".jsonl", "application/x-ndjson"
	if s.gzip {
		extension, contentType = ".jsonl.gz", "application/gzip"
		if s.encoding != "" {
			// Whoever unpacks the encoding finds lines.
			contentType = "application/x-ndjson"
		}
	}
	if !cfg.Has("extension") {
		s.extension = extension
	}
	if s.contentType == "" {
		s.contentType = contentType
	}
	if s.partSize < minPartSize {
		s.partSize = defaultPartSize
	}
	if s.uploads < 1 {
		s.uploads = defaultUploads
	}
	if s.timeout <= 0 {
		s.timeout = defaultTimeout
	}
}
