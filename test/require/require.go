// Package require holds the one rule about services a test needs and a machine may lack: such a test is skipped in one line,
// or fails where the service was promised (continuous integration promises all of them).
//
// It does not look for services; the package that starts one does, and calls [Service] when it is missing.
package require

import (
	"os"
	"strings"
	"testing"
)

// Variable is the environment variable that lists the services whose absence is a failure: "all", or names separated by
// commas. Empty or unset: a missing service skips the test.
const Variable = "SLUICE_TEST_REQUIRE"

// Service ends the test because the service called name (such as "kafka", "postgres", "s3") is missing. why says what was
// looked for and how to get it, in one line. The test is skipped, or fails if [Variable] asks for the service. It does not
// return, and like [testing.T.FailNow] it must be called from the test's own goroutine.
func Service(t testing.TB, name, why string) {
	t.Helper()
	if required(os.Getenv(Variable), name) {
		t.Fatalf("%s is required by %s and missing: %s", name, Variable, why)
	}
	t.Skipf("no %s: %s", name, why)
}

// required reports whether list, the value of [Variable], asks for the service.
func required(list, name string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item == "all" || item == name {
			return true
		}
	}
	return false
}
