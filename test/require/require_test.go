package require

import (
	"fmt"
	"runtime"
	"testing"
)

func TestRequired(t *testing.T) {
	tests := []struct {
		name, list, service string
		want                bool
	}{
		{"unset", "", "kafka", false},
		{"all", "all", "kafka", true},
		{"named", "postgres, kafka", "kafka", true},
		{"another one", "postgres", "kafka", false},
		{"a longer name", "kafka3", "kafka", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := required(tt.list, tt.service); got != tt.want {
				t.Errorf("required(%q, %q) = %v, want %v", tt.list, tt.service, got, tt.want)
			}
		})
	}
}

// recorder stands in for a test and notes how it was ended.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.ended = "fail: " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) {
	r.ended = "skip: " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestService(t *testing.T) {
	tests := []struct {
		name, list, want string
	}{
		{"skipped", "", "skip: no kafka: java is not on the path"},
		{"required", "all", "fail: kafka is required by SLUICE_TEST_REQUIRE and missing: java is not on the path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(Variable, tt.list)
			r := &recorder{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				Service(r, "kafka", "java is not on the path")
			}()
			<-done
			if r.ended != tt.want {
				t.Errorf("ended with %q, want %q", r.ended, tt.want)
			}
		})
	}
}
