package jdbc

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// settings are the sink's settings, checked.
type settings struct {
	table          *tableTemplate
	upsert         bool
	pkSource       string   // "" without a key.
	pkFields       []string // Not empty with upsert.
	version        string   // "" without one.
	ignoreUnknown  bool
	maxRows        int
	connectTimeout time.Duration
	timeout        time.Duration
}

// maxKeyFields bounds the columns of a key. The databases allow 32 or fewer.
const maxKeyFields = 32

// invalid returns an error for settings that can never be right.
func invalid(format string, args ...any) *pluginapi.Error {
	return pluginapi.NewError(pluginapi.Invalid, "settings", fmt.Sprintf(format, args...))
}

func readSettings(cfg pluginapi.Config) (settings, error) {
	s := settings{
		upsert:         cfg.String("mode") == modeUpsert,
		version:        cfg.String("version"),
		ignoreUnknown:  cfg.String("unknown_fields") == unknownIgnore,
		maxRows:        int(cfg.Int("max_rows")),
		connectTimeout: cfg.Duration("connect_timeout"),
		timeout:        cfg.Duration("statement_timeout"),
	}
	if s.maxRows <= 0 {
		s.maxRows = 500
	}
	if s.connectTimeout <= 0 {
		s.connectTimeout = 10 * time.Second
	}
	if s.timeout <= 0 {
		s.timeout = 30 * time.Second
	}
	table, err := parseTable(cfg.String("table"))
	if err != nil {
		return settings{}, invalid("table: %v", err)
	}
	s.table = table
	if cfg.Has("pk") {
		pk := cfg.Object("pk")
		s.pkSource, s.pkFields = pk.String("source"), pk.Strings("fields")
		if s.pkSource == "" {
			s.pkSource = fromValue
		}
		if err := checkKey(s.pkSource, s.pkFields); err != nil {
			return settings{}, err
		}
	}
	switch {
	case s.upsert && len(s.pkFields) == 0:
		return settings{}, invalid(`mode "upsert" needs pk with the fields of the key, as in pk = { source = "value", fields = ["id"] }`)
	case s.version != "" && !s.upsert:
		return settings{}, invalid(`version is for mode "upsert"; remove it or set the mode`)
	}
	for _, f := range s.pkFields {
		if f == s.version {
			return settings{}, invalid("version %q is part of the key; name another column", s.version)
		}
	}
	return s, nil
}

func checkKey(source string, fields []string) error {
	if len(fields) == 0 || len(fields) > maxKeyFields {
		return invalid("pk.fields has %d names, want 1 to %d", len(fields), maxKeyFields)
	}
	seen := make(map[string]bool, len(fields))
	for _, f := range fields {
		if f == "" || seen[f] {
			return invalid("pk.fields names %q twice or is empty there", f)
		}
		seen[f] = true
	}
	switch source {
	case fromKey, fromValue:
		return nil
	case fromKafka:
		if len(fields) != 3 {
			return invalid(`pk.source "kafka" needs three fields, the columns of topic, partition and offset, got %d`, len(fields))
		}
		return nil
	default:
		return invalid("pk.source %q: want key, value or kafka", source)
	}
}
