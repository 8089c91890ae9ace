package http

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// fate is what an answer means for the records of its request.
type fate uint8

const (
	accept fate = iota + 1
	retry
	unavailable
	reject
)

// statuses maps codes, and classes where a code is not listed, to fates.
type statuses struct {
	codes   map[int]fate
	classes [6]fate // By the first digit.
}

// newStatuses reads the four settings. A code or class in two of them is an
// error.
func newStatuses(cfg pluginapi.Config) (*statuses, error) {
	s := &statuses{codes: map[int]fate{}}
	for _, set := range []struct {
		setting string
		fate    fate
	}{
		{"accept_status", accept}, {"retry_status", retry}, {"unavailable_status", unavailable}, {"reject_status", reject},
	} {
		for _, text := range cfg.Strings(set.setting) {
			if err := s.add(text, set.fate); err != nil {
				return nil, fmt.Errorf("%s: %w", set.setting, err)
			}
		}
	}
	return s, nil
}

func (s *statuses) add(text string, f fate) error {
	if class, ok := strings.CutSuffix(text, "xx"); ok && len(class) == 1 && class[0] >= '1' && class[0] <= '5' {
		if s.classes[class[0]-'0'] != 0 {
			return fmt.Errorf("%q stands in two lists", text)
		}
		s.classes[class[0]-'0'] = f
		return nil
	}
	code, err := strconv.Atoi(text)
	if err != nil || code < 100 || code > 599 {
		return fmt.Errorf("%q is neither a status code such as \"404\" nor a class such as \"4xx\"", text)
	}
	if s.codes[code] != 0 {
		return fmt.Errorf("%q stands in two lists", text)
	}
	s.codes[code] = f
	return nil
}

// of returns the fate of a code; what no list names can be put right.
func (s *statuses) of(code int) fate {
	if f := s.codes[code]; f != 0 {
		return f
	}
	if code >= 100 && code < 600 && s.classes[code/100] != 0 {
		return s.classes[code/100]
	}
	return unavailable
}

// result makes the answer's result for its records.
func (s *statuses) result(resp *http.Response, text string) pluginapi.Result {
	code := strconv.Itoa(resp.StatusCode)
	message := "the target answered " + strings.TrimSpace(code+" "+http.StatusText(resp.StatusCode))
	if loc := resp.Header.Get("Location"); loc != "" && resp.StatusCode/100 == 3 {
		text = "Location: " + withoutSecrets(loc)
	}
	if text != "" {
		message += ": " + text
	}
	switch s.of(resp.StatusCode) {
	case accept:
		return pluginapi.Result{Outcome: pluginapi.Accept}
	case reject:
		return pluginapi.Rejected(code, message)
	case retry:
		class := pluginapi.Transient
		if resp.StatusCode == http.StatusTooManyRequests {
			class = pluginapi.Throttled
		}
		return pluginapi.Retried(&pluginapi.Error{
			Class: class, Code: code, Message: message, RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now()),
		})
	default:
		return pluginapi.Retried(&pluginapi.Error{
			Class: pluginapi.Unavailable, Code: code, Message: message, RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now()),
		})
	}
}

// maxRetryAfter bounds what a target may ask for; the host has a bound of its
// own, retry.max.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads a Retry-After header (RFC 9110, 10.2.3) in either form.
// Zero, the past and nonsense are 0: the host chooses.
func retryAfter(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n <= 0 {
			return 0
		}
		return time.Duration(min(n, int64(maxRetryAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil && at.After(now) {
		return min(at.Sub(now), maxRetryAfter)
	}
	return 0
}
