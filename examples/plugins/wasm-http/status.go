package main

import (
	"strconv"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/guest"
)

// answered turns an HTTP answer into a result.
func answered(resp *guest.Response) pluginapi.Result {
	class := classOf(resp.Status)
	if class == pluginapi.NoClass {
		return pluginapi.Result{Outcome: pluginapi.Accept}
	}
	err := pluginapi.NewError(class, strconv.Itoa(resp.Status), "the target answered "+strconv.Itoa(resp.Status))
	if class == pluginapi.Invalid {
		return pluginapi.Result{Outcome: pluginapi.Reject, Err: err}
	}
	err.RetryAfter = retryAfter(resp.Header("Retry-After"), time.Now())
	return pluginapi.Retried(err)
}

// classOf says what a status means: NoClass that the record was accepted,
// Invalid that it never will be.
func classOf(status int) pluginapi.Class {
	switch {
	case status >= 200 && status <= 299:
		return pluginapi.NoClass
	case status == 429:
		return pluginapi.Throttled
	case status == 401, status == 403, status == 407:
		return pluginapi.Unavailable // Our credentials may be put right while we wait.
	case status == 408, status == 425:
		return pluginapi.Transient
	case status >= 500 && status != 501 && status != 505:
		return pluginapi.Transient
	default:
		return pluginapi.Invalid // Redirects too: a POST is not sent elsewhere.
	}
}

// maxRetryAfter bounds what a target may ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads a Retry-After header: seconds, or a date. Zero means none.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if at, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
