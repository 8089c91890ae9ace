package chaos

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
)

func body(ids ...int) string {
	var b strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&b, `{"topic":"t","partition":%d,"offset":%d,"value":%s}`+"\n", id%6, id/6, kafkatest.Value(id, 60))
	}
	return b.String()
}

// What each fault answers, and whether it stores.
func TestTarget(t *testing.T) {
	const late = 50 * time.Millisecond
	for _, tc := range []struct {
		kind   Kind
		body   string
		status int // 0: the connection is cut, or nothing comes.
		stored int
		after  time.Duration
	}{
		{"", body(1, 2), 204, 2, 0},
		{"", body(1, badEvery/2, 2), 400, 0, 0},
		{"", "nonsense", 400, 0, 0},
		{Unavailable, body(1), 503, 0, 0},
		{Throttle, body(1), 429, 0, 0},
		{Hang, body(1), 0, 0, 0},
		{StoreLate, body(1), 204, 1, late},
		{StoreCut, body(1), 0, 1, 0},
	} {
		t.Run(fmt.Sprintf("%s%.10s", tc.kind, tc.body), func(t *testing.T) {
			target, err := NewTarget(1, time.Now(), late)
			if err != nil {
				t.Fatal(err)
			}
			defer target.Close()
			if tc.kind != "" {
				target.Break(tc.kind, 1)
			}
			client := &http.Client{Timeout: 10 * time.Second}
			if tc.kind == Hang {
				client.Timeout = 300 * time.Millisecond
			}
			begin := time.Now()
			resp, err := client.Post("http://"+target.Address()+"/w2", "application/x-ndjson", strings.NewReader(tc.body))
			status := 0
			if err == nil {
				resp.Body.Close()
				status = resp.StatusCode
			}
			if status != tc.status || time.Since(begin) < tc.after {
				t.Errorf("status %d (%v) after %v, want %d after %v", status, err, time.Since(begin), tc.status, tc.after)
			}
			target.Heal()
			events, _ := target.Events()
			// A request that is sent again by the client on a cut connection stores again.
			if len(events) < tc.stored || tc.stored == 0 && len(events) > 0 {
				t.Errorf("%d stored, want %d", len(events), tc.stored)
			}
			for _, e := range events {
				if e.Worker != "w2" || e.Place != (Place{Partition: int32(e.ID % 6), Offset: int64(e.ID / 6)}) {
					t.Errorf("stored as %+v", e)
				}
			}
		})
	}
}

func TestTargetKnowsWhatIsMissing(t *testing.T) {
	target, err := NewTarget(1, time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	confirmed := []Place{{Offset: 0}, {Offset: 1}, {Offset: unconfirmed}, {Offset: 2}}
	target.store("w1", []byte(body(0)))
	target.Mark(3)
	if n := target.Missing(confirmed); n != 1 {
		t.Errorf("%d missing, want 1: the second", n)
	}
}

func TestMergeReplacesOneSection(t *testing.T) {
	got := ""
	for _, s := range []struct{ title, text string }{{"A", "1"}, {"B", "2"}, {"A", "3"}, {"B", "4"}} {
		got = merge(got, s.title, "## "+s.title+"\n\n"+s.text+"\n")
	}
	if want := "\n\n## A\n\n3\n\n## B\n\n4\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
