package abi

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// TestDocumentedNumbers compares the tables of docs/abi with the code: every
// number in each, and none that the code does not have.
func TestDocumentedNumbers(t *testing.T) {
	text, err := os.ReadFile("../../docs/abi/README.md")
	if err != nil {
		t.Fatal(err)
	}
	cddl, err := os.ReadFile("../../docs/abi/frames.cddl")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		table, rule string // The table's first heading, and the rule of the CDDL.
		first       int
		names       []string
	}{
		{"Kind", "kind", 0, names(20, func(i int) string { return data.Kind(i).String() })},
		{"Outcome", "outcome", 1, []string{"accept", "retry", "reject"}},
		{"Class", "class", 0, names(7, func(i int) string { return pluginapi.Class(i).String() })},
		{"Timestamp type", "timestamp-type", int(pluginapi.NoTimestamp), []string{"none", "create time", "log append time"}},
		{"Form", "form", int(pluginapi.FormData), []string{"data", "bytes"}},
		{"Capability", "capability", int(pluginapi.CanCheck), []string{"check", "report", "emit"}},
		{"Setting type", "setting-type", 1, names(10, func(i int) string { return pluginapi.Type(i).String() })[1:]},
	} {
		t.Run(tc.table, func(t *testing.T) {
			var want []string
			for i, name := range tc.names {
				want = append(want, fmt.Sprintf("%s=%d", name, tc.first+i))
			}
			if got := table(string(text), tc.table); strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("README.md has %v, the code %v", got, want)
			}
			rule := fmt.Sprintf("\n%s = %d..%d\n", tc.rule, tc.first, tc.first+len(tc.names)-1)
			if !strings.Contains(string(cddl), rule) {
				t.Errorf("frames.cddl lacks %q", strings.TrimSpace(rule))
			}
		})
	}
	for i, o := range []pluginapi.Outcome{pluginapi.Accept, pluginapi.Retry, pluginapi.Reject} {
		if int(o) != i+1 {
			t.Errorf("outcome %s is %d, documented as %d", o, o, i+1)
		}
	}
	if data.KindStruct != 19 || pluginapi.Object != 9 || pluginapi.Invalid != 6 || pluginapi.CanEmit != 3 || pluginapi.LogAppendTime != 2 {
		t.Error("a number was added: document it and this test")
	}
}

func names(n int, name func(int) string) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = name(i)
	}
	return list
}

// table returns "name=number" of each row of the table headed by heading.
func table(text, heading string) []string {
	_, rest, _ := strings.Cut(text, "\n| "+heading+" |")
	_, rest, _ = strings.Cut(rest, "\n|---|")
	rest, _, _ = strings.Cut(rest, "\n\n")
	var list []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z0-9 ]+) \| (\d+) \|`).FindAllStringSubmatch(rest, -1) {
		list = append(list, row[1]+"="+row[2])
	}
	return list
}

// TestDocumentedKeys checks that every key the code writes or reads in a map is
// in the CDDL.
func TestDocumentedKeys(t *testing.T) {
	cddl, err := os.ReadFile("../../docs/abi/frames.cddl")
	if err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`(?:case |f\.[a-z]+\(|appendText\(dst, )"([a-z-]+)"`)
	seen := 0
	for _, file := range []string{"request.go", "description.go", "start.go", "http.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range key.FindAllStringSubmatch(string(source), -1) {
			seen++
			if !strings.Contains(string(cddl), `"`+m[1]+`":`) {
				t.Errorf("%s: key %q is not in frames.cddl", file, m[1])
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d keys were found in the code", seen)
	}
}
