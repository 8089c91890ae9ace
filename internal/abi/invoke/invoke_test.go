package invoke

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehq/sluice/pluginapi"
)

// plain is a sink without reports; reporting has them.
type plain struct {
	results []pluginapi.Result
	err     error
	panics  any
}

func (*plain) Start(context.Context, pluginapi.Config) error { return nil }
func (*plain) Stop(context.Context) error                    { panic("stop") }

func (p *plain) Put(context.Context, []pluginapi.Record) ([]pluginapi.Result, error) {
	if p.panics != nil {
		panic(p.panics)
	}
	return p.results, p.err
}

type reporting struct {
	plain
	do func(report func(int, []pluginapi.Result)) error
}

func (r *reporting) PutReport(_ context.Context, _ []pluginapi.Record, report func(int, []pluginapi.Result)) error {
	return r.do(report)
}

// outcomes makes results of "a", "y", "j" and "-".
func outcomes(s string) []pluginapi.Result {
	out := make([]pluginapi.Result, len(s))
	for i := range s {
		out[i].Outcome = pluginapi.Outcome(strings.IndexByte("-ayj", s[i]))
	}
	return out
}

func TestPut(t *testing.T) {
	lost := errors.New("lost")
	tests := []struct {
		name  string
		sink  pluginapi.Sink
		want  string // What is known of three records.
		error string
	}{
		{"all", &plain{results: outcomes("ayj")}, "ayj", ""},
		{"fewer", &plain{results: outcomes("aa")}, "---", "2 results for 3 records"},
		{"more", &plain{results: outcomes("aaaa")}, "---", "4 results for 3 records"},
		{"none", &plain{}, "---", "0 results for 3 records"},
		{"zero in the middle", &plain{results: outcomes("a-j")}, "a-j", "1 of 3 records have no result"},
		{"error", &plain{err: lost}, "---", "lost"},
		{"error with some", &plain{results: outcomes("ay"), err: lost}, "ay-", "lost"},
		{"error with gaps", &plain{results: outcomes("a-y"), err: lost}, "a-y", "lost"},
		{"error with too many", &plain{results: outcomes("aaaa"), err: lost}, "---", "lost"},
		{"panic", &plain{panics: "boom"}, "---", "panic in Put: boom"},
		{"reported out of order", &reporting{do: func(report func(int, []pluginapi.Result)) error {
			report(2, outcomes("j"))
			report(0, outcomes("ay"))
			return nil
		}}, "ayj", ""},
		{"reported in part", &reporting{do: func(report func(int, []pluginapi.Result)) error {
			report(1, outcomes("a"))
			return nil
		}}, "-a-", "2 of 3 records have no result"},
		{"reported twice", &reporting{do: func(report func(int, []pluginapi.Result)) error {
			report(0, outcomes("aaa"))
			report(1, outcomes("y"))
			return nil
		}}, "aya", ""},
		{"reported outside", &reporting{do: func(report func(int, []pluginapi.Result)) error {
			report(0, outcomes("aaa"))
			report(2, outcomes("aa"))
			report(-1, outcomes("a"))
			return nil
		}}, "aaa", "2 results from record 2 of 3"},
		{"reported, then an error", &reporting{do: func(report func(int, []pluginapi.Result)) error {
			report(0, outcomes("a"))
			return lost
		}}, "a--", "lost"},
		{"reported, then a panic", &reporting{do: func(report func(int, []pluginapi.Result)) error {
			report(0, outcomes("a"))
			panic("boom")
		}}, "a--", "panic in Put: boom"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			known := make([]pluginapi.Result, 3)
			results, err := Put(t.Context(), tt.sink, make([]pluginapi.Record, 3), func(first int, r []pluginapi.Result) {
				copy(known[first:first+len(r)], r)
			})
			copy(known, results)
			var got strings.Builder
			for _, r := range known {
				got.WriteByte("-ayj"[r.Outcome])
			}
			if got.String() != tt.want {
				t.Errorf("known %s, want %s", got.String(), tt.want)
			}
			if tt.error == "" && err != nil || tt.error != "" && (err == nil || !strings.Contains(err.Error(), tt.error)) {
				t.Errorf("error %v, want %q", err, tt.error)
			}
		})
	}
}

func TestReportsFromManyGoroutines(t *testing.T) {
	const n = 1000
	var late func(int, []pluginapi.Result)
	sink := &reporting{do: func(report func(int, []pluginapi.Result)) error {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { report(i, outcomes("a")) })
		}
		wg.Wait()
		late = report
		return nil
	}}
	seen := 0 // Not guarded: Put calls report from one goroutine at a time.
	if _, err := Put(t.Context(), sink, make([]pluginapi.Record, n), func(int, []pluginapi.Result) { seen++ }); err != nil {
		t.Fatal(err)
	}
	late(0, outcomes("j"))
	if seen != n {
		t.Errorf("%d reports, want %d", seen, n)
	}
}

func TestPanicIsAnError(t *testing.T) {
	err := Stop(t.Context(), &plain{})
	var p *PanicError
	if !errors.As(err, &p) || p.Method != "Stop" || len(p.Stack) == 0 {
		t.Fatalf("error %v", err)
	}
	if e := pluginapi.AsError(err, pluginapi.NoClass); e.Class != pluginapi.Unknown || e.Code != CodePanic {
		t.Errorf("as an error of the boundary: %+v", e)
	}
}
