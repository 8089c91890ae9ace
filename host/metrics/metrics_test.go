package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/sharetask"
)

func scrape(t *testing.T, r *Registry) string {
	t.Helper()
	rec := httptest.NewRecorder()
	r.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if rec.Code != 200 {
		t.Fatalf("got %d %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

func TestEachCallCountsInItsOwnMetric(t *testing.T) {
	const l = `{connector="c",task="3"}`
	for _, tc := range []struct {
		name string
		call func(*Task)
		want []string
	}{
		{"nothing yet", func(*Task) {}, []string{
			"sluice_records_acquired_total" + l + " 0", "sluice_records_accepted_total" + l + " 0",
			"sluice_records_released_total" + l + " 0", "sluice_records_rejected_total" + l + " 0",
			"sluice_records_renewed_total" + l + " 0", "sluice_put_duration_seconds_count" + l + " 0",
			"sluice_records_retried_total" + l + " 0", "sluice_task_restarts_total" + l + " 0",
			"sluice_task_running" + l + " 0", `sluice_build_info{commit="abc",version="v1"} 1`,
		}},
		{"acquired", func(t *Task) { t.Acquired(2); t.Acquired(3) }, []string{"sluice_records_acquired_total" + l + " 5"}},
		{"accepted", func(t *Task) { t.Acknowledged(sharetask.Accept, 2) }, []string{"sluice_records_accepted_total" + l + " 2", "sluice_records_released_total" + l + " 0"}},
		{"released", func(t *Task) { t.Acknowledged(sharetask.Release, 2) }, []string{"sluice_records_released_total" + l + " 2", "sluice_records_accepted_total" + l + " 0"}},
		{"rejected", func(t *Task) { t.Acknowledged(sharetask.Reject, 2) }, []string{"sluice_records_rejected_total" + l + " 2"}},
		{"renewed", func(t *Task) { t.Acknowledged(sharetask.Renew, 2) }, []string{"sluice_records_renewed_total" + l + " 2"}},
		{"no verdict", func(t *Task) { t.Acknowledged(0, 2) }, []string{"sluice_records_accepted_total" + l + " 0"}},
		{"lost", func(t *Task) { t.Lost(4, false) }, []string{"sluice_records_lost_total" + l + " 4", "sluice_renewals_failed_total" + l + " 0"}},
		{"renewal refused", func(t *Task) { t.Lost(4, true) }, []string{"sluice_records_lost_total" + l + " 4", "sluice_renewals_failed_total" + l + " 4"}},
		{"delivered again", func(t *Task) { t.Redelivered(4, 1, 5); t.Redelivered(1, 0, 2) }, []string{
			"sluice_records_redelivered_total" + l + " 5", "sluice_records_last_chance_total" + l + " 1", "sluice_delivery_count_highest" + l + " 5",
		}},
		{"target down", func(t *Task) { t.Down(true) }, []string{"sluice_target_down" + l + " 1"}},
		{"target up", func(t *Task) { t.Down(true); t.Down(false) }, []string{"sluice_target_down" + l + " 0"}},
		{"put", func(t *Task) { t.Put(500, 250*time.Millisecond, false) }, []string{
			"sluice_put_duration_seconds_sum" + l + " 0.25", "sluice_put_batch_records_sum" + l + " 500", "sluice_put_errors_total" + l + " 0",
		}},
		{"put that fails", func(t *Task) { t.Put(1, time.Second, true) }, []string{"sluice_put_errors_total" + l + " 1"}},
		{"retried", func(t *Task) { t.Retried(4) }, []string{"sluice_records_retried_total" + l + " 4"}},
		{"dead letters", func(t *Task) { t.DeadLettered("reject", 4) }, []string{`sluice_dead_letters_total{cause="reject",connector="c",task="3"} 4`}},
		{"parked", func(t *Task) { t.Parked(3) }, []string{"sluice_records_parked_total" + l + " 3"}},
		{"dead letters that fail", func(t *Task) { t.DeadLetterFailed(4) }, []string{"sluice_dead_letter_failures_total" + l + " 4"}},
		{"dropped", func(t *Task) { t.Dropped("reject", 4) }, []string{`sluice_records_dropped_total{cause="reject",connector="c",task="3"} 4`}},
		{"open", func(t *Task) { t.Open(4, 400, time.UnixMilli(1500)) }, []string{
			"sluice_records_open" + l + " 4", "sluice_records_open_bytes" + l + " 400", "sluice_oldest_open_timestamp_seconds" + l + " 1.5",
		}},
		{"nothing open", func(t *Task) { t.Open(0, 0, time.Time{}) }, []string{"sluice_oldest_open_timestamp_seconds" + l + " 0"}},
		{"restarted", func(t *Task) { t.Restarted() }, []string{"sluice_task_restarts_total" + l + " 1"}},
		{"degraded", func(t *Task) { t.State(true, true) }, []string{"sluice_task_running" + l + " 1", "sluice_task_degraded" + l + " 1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := New("v1", "abc")
			tc.call(r.Task("c", 3, 1))
			text := scrape(t, r)
			for _, want := range tc.want {
				if !strings.Contains(text, want+"\n") {
					t.Errorf("no %q in\n%s", want, grep(text, "sluice_"))
				}
			}
		})
	}
}

func grep(text, part string) string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, part) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

func TestForgottenConnectorsHaveNoMetrics(t *testing.T) {
	r := New("", "")
	r.Task("gone", 0, 1).DeadLettered("reject", 1)
	r.Task("stays", 0, 1).Acquired(1)
	r.Forget("gone")
	text := scrape(t, r)
	if strings.Contains(text, `"gone"`) || !strings.Contains(text, `"stays"`) {
		t.Errorf("got\n%s", grep(text, "sluice_"))
	}
}
