package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// parseDuration reads "250ms", "30s", "2m", "1h30m", and days as "7d".
func parseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, fmt.Errorf("it is empty")
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, fmt.Errorf("it has no unit")
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/int64(24*time.Hour) {
			return 0, fmt.Errorf("it is not a number of days")
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("it is not a duration")
	}
	if d < 0 {
		return 0, fmt.Errorf("it is negative")
	}
	return d, nil
}

// durationText writes d as a user would: "30s", "2m", "1h30m".
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func sizeUnits() map[string]int64 {
	return map[string]int64{
		"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
		"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	}
}

func sizeSyntax() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([A-Za-z]*)$`)
}

// parseSize reads "512KiB", "8MiB", "1GB".
func parseSize(text string) (int64, error) {
	m := sizeSyntax().FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("it is not a size")
	}
	if m[2] == "" {
		return 0, fmt.Errorf("it has no unit")
	}
	unit, ok := sizeUnits()[m[2]]
	if !ok {
		return 0, fmt.Errorf("the unit %q is not known; use B, KiB, MiB, GiB, TiB or kB, MB, GB, TB", m[2])
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil || n*float64(unit) >= math.MaxInt64 {
		return 0, fmt.Errorf("it is too large")
	}
	return int64(n * float64(unit)), nil
}

// sizeText writes n as a user would: "8MiB".
func sizeText(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.size && n%u.size == 0 {
			return fmt.Sprintf("%d%s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}
