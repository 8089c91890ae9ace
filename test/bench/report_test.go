package bench

import (
	"errors"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	s := series{title: "T", base: "a", variants: []variant{{name: "a"}, {name: "b"}}}
	run := func(records, span float64) sample {
		m := newSample()
		m.records, m.span, m.cpu = records, span, 1
		return m
	}
	failed := newSample()
	failed.err = errors.New("no")
	got := s.table(map[string][]sample{
		"a": {run(1e6, 1), run(1e6, 2), run(1e6, 4)},
		"b": {run(1e6, 2), run(1e6, 1), failed},
	})
	for _, want := range []string{
		"| a | 500 [250-1000] | 1.00 [1.00-1.00] | 1.00 [1.00-1.00] | - |",
		"| b | 750 [500-1000] | 1.25 [0.50-2.00] |", // 500/1000 and 1000/500: of one round each.
		"b: 1 of 3 runs failed.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
}

func TestUpdate(t *testing.T) {
	report := update("", "## A\n\none\n")
	report = update(report, "## B\n\ntwo\n")
	report = update(report, "## C\n\nthree\n")
	report = update(report, "## B\n\nfour\n")
	report = update(report, "## C\n\nfive\n")
	if want := preface + "\n## A\n\none\n\n## B\n\nfour\n\n## C\n\nfive\n"; report != want {
		t.Errorf("got\n%s\nwant\n%s", report, want)
	}
}
