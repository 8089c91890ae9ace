package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

func started(t *testing.T, values map[string]any) *sink {
	t.Helper()
	s := &sink{}
	if err := s.Start(t.Context(), pluginapi.Config{Values: values, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.WithoutCancel(t.Context())) })
	return s
}

func record(topic string, offset int64, value string) pluginapi.Record {
	return pluginapi.Record{Topic: topic, Offset: offset, Key: pluginapi.BytesDatum([]byte("k")), Value: pluginapi.BytesDatum([]byte(value))}
}

func outcomes(results []pluginapi.Result) string {
	var b strings.Builder
	for _, r := range results {
		b.WriteString(r.Outcome.String()[:1])
	}
	return b.String()
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestLinesAreAppendedAndALineWithoutItsEndIsCut(t *testing.T) {
	long := strings.Repeat("x", 200<<10) // Longer than what is looked at at once.
	for _, tc := range []struct{ name, before, want string }{
		{"new", "", "{\"a\":1}\n"},
		{"whole lines", "1\n2\n", "1\n2\n{\"a\":1}\n"},
		{"a part of a line", "1\n2\n{\"a\":", "1\n2\n{\"a\":1}\n"},
		{"nothing but a part", "{\"a\":", "{\"a\":1}\n"},
		{"a long part", "1\n" + long, "1\n{\"a\":1}\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out.jsonl")
			if tc.before != "" {
				if err := os.WriteFile(path, []byte(tc.before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s := started(t, map[string]any{"path": path})
			results, err := s.Put(t.Context(), []pluginapi.Record{record("t", 1, `{"a":1}`)})
			if err != nil || outcomes(results) != "a" {
				t.Fatalf("got %v %v", results, err)
			}
			if got := content(t, path); got != tc.want {
				t.Errorf("got %.60q, want %.60q", got, tc.want)
			}
		})
	}
}

func TestManyWritersOfOneFileKeepLinesWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "out.jsonl")
	const writers, puts, size = 4, 20, 5
	var wg sync.WaitGroup
	for w := range writers {
		s := started(t, map[string]any{"path": path})
		wg.Go(func() {
			for p := range puts {
				var batch []pluginapi.Record
				for i := range size {
					batch = append(batch, record("t", 0, fmt.Sprintf(`"%d-%d-%d"`, w, p, i)))
				}
				results, err := s.Put(t.Context(), batch)
				if err != nil || outcomes(results) != "aaaaa" {
					t.Errorf("got %v %v", results, err)
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for line := range strings.Lines(content(t, path)) {
		seen[line] = true
	}
	if len(seen) != writers*puts*size {
		t.Errorf("got %d different lines, want %d", len(seen), writers*puts*size)
	}
}

func TestRotatedFileIsOpenedAnew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.jsonl")
	s := started(t, map[string]any{"path": path})
	for i := range 2 {
		if _, err := s.Put(t.Context(), []pluginapi.Record{record("t", 1, fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := os.Rename(path, path+".1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if a, b := content(t, path+".1"), content(t, path); a != "0\n" || b != "1\n" {
		t.Errorf("got %q and %q, want 0 in the moved file and 1 in the new one", a, b)
	}
}

func TestPathFieldsStayInTheirFolder(t *testing.T) {
	dir := t.TempDir()
	s := started(t, map[string]any{"path": filepath.Join(dir, "{header.f}", "{topic}.jsonl")})
	var batch []pluginapi.Record
	fields := []string{"good", "..", "../../x", "a/b", "", ".", "a\x00b", `a\b`, "ü"}
	for _, f := range fields {
		r := record("t", 1, "1")
		r.Headers = []pluginapi.Header{{Key: "f", Value: pluginapi.BytesDatum([]byte(f))}}
		batch = append(batch, r)
	}
	batch = append(batch, record("t", 1, "1")) // Has no such header.
	results, err := s.Put(t.Context(), batch)
	if err != nil || outcomes(results) != "arrrrrrrar" {
		t.Errorf("got %s %v, want only the first and the last but one accepted", outcomes(results), err)
	}
	if got := content(t, filepath.Join(dir, "good", "t.jsonl")); got != "1\n" {
		t.Errorf("got %q", got)
	}
}

func TestMoreFilesThanAreKeptOpen(t *testing.T) {
	dir := t.TempDir()
	s := started(t, map[string]any{"path": filepath.Join(dir, "{offset}.jsonl")})
	var batch []pluginapi.Record
	for i := range int64(3 * maxOpen) {
		batch = append(batch, record("t", i, "1"))
	}
	for range 2 {
		if results, err := s.Put(t.Context(), batch); err != nil || strings.Trim(outcomes(results), "a") != "" {
			t.Fatalf("got %s %v", outcomes(results), err)
		}
	}
	if len(s.files) > maxOpen {
		t.Errorf("%d files are open, want at most %d", len(s.files), maxOpen)
	}
	if got := content(t, filepath.Join(dir, "0.jsonl")); got != "1\n1\n" {
		t.Errorf("got %q", got)
	}
}

func TestWhatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, path string
		want       string // The class of the put's error, else of the result.
	}{
		{"a directory", dir, "fatal"},
		{"below a file", filepath.Join(dir, "file", "x"), "fatal"},
		{"a device", "/dev/full", "fatal"},
		{"a name that is too long", filepath.Join(dir, strings.Repeat("x", 300)), "fatal"},
		{"a name of the record's that is too long", filepath.Join(dir, "{value}"), "reject: invalid"},
		{"a record's name below a file", filepath.Join(dir, "file", "{topic}"), "reject: invalid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := started(t, map[string]any{"path": tc.path})
			results, err := s.Put(t.Context(), []pluginapi.Record{record("t", 1, strings.Repeat("1", 300))})
			var got string
			if err != nil {
				got = pluginapi.AsError(err, pluginapi.NoClass).Class.String()
			} else {
				got = results[0].Outcome.String()
				if e := results[0].Err; e != nil {
					got += ": " + e.Class.String()
				}
			}
			if got != tc.want {
				t.Errorf("got %s (%v, %v), want %s", got, results, err, tc.want)
			}
		})
	}
}

func TestDiskIsFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	s := started(t, map[string]any{"path": path})
	if _, err := s.Put(t.Context(), []pluginapi.Record{record("t", 0, "0")}); err != nil {
		t.Fatal(err)
	}
	full := true
	s.writeAt = func(f *os.File, b []byte, at int64) (int, error) {
		if !full {
			return f.WriteAt(b, at)
		}
		n, err := f.WriteAt(b[:len(b)-2], at) // Most of it fits, whole lines among it.
		return n, errors.Join(&os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}, err)
	}
	s.files[path].writeAt = s.writeAt
	batch := []pluginapi.Record{record("t", 1, "1"), record("t", 2, "2"), record("t", 3, "3")}
	results, err := s.Put(t.Context(), batch)
	if err != nil || outcomes(results) != "rrr" || results[0].Outcome != pluginapi.Retry || results[0].Err.Code != "ENOSPC" {
		t.Fatalf("got %v %v, want three retries for ENOSPC", results, err)
	}
	if got := content(t, path); got != "0\n" {
		t.Errorf("the file holds %q, want nothing of the batch", got)
	}
	full = false
	if results, err = s.Put(t.Context(), batch); err != nil || outcomes(results) != "aaa" {
		t.Fatalf("got %v %v after there was room", results, err)
	}
	if got := content(t, path); got != "0\n1\n2\n3\n" {
		t.Errorf("the file holds %q", got)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		name, path string
		ok         bool
	}{
		{"new file", filepath.Join(dir, "new"), true},
		{"new folders", filepath.Join(dir, "a", "b", "new"), true},
		{"not known yet", filepath.Join(dir, "{topic}"), true},
		{"a directory", dir, false},
		{"no directory", "/dev/null/x", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := started(t, map[string]any{"path": tc.path})
			if err := s.Check(t.Context()); (err == nil) != tc.ok {
				t.Errorf("got %v, want it right: %v", err, tc.ok)
			}
		})
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("Check left %v, %v", entries, err)
	}
}

func TestALockHeldByAnotherEndsWithTheContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	other, err := openFile(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if ok, err := tryLock(other); !ok || err != nil {
		t.Skip("this system has no advisory locks")
	}
	s := started(t, map[string]any{"path": path})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	results, err := s.Put(ctx, []pluginapi.Record{record("t", 1, "1")})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) || results[0].Outcome != pluginapi.Retry {
		t.Errorf("got %v %v, want a retry", results, err)
	}
	if err := unlock(other); err != nil {
		t.Fatal(err)
	}
	if results, err := s.Put(t.Context(), []pluginapi.Record{record("t", 1, "1")}); err != nil || outcomes(results) != "a" {
		t.Errorf("got %v %v after the lock was free", results, err)
	}
}

func BenchmarkPut(b *testing.B) {
	s := &sink{}
	if err := s.Start(b.Context(), pluginapi.Config{Values: map[string]any{"path": filepath.Join(b.TempDir(), "out.jsonl")}}); err != nil {
		b.Fatal(err)
	}
	value := `{"pad":"` + strings.Repeat("x", 1000) + `"}`
	var batch []pluginapi.Record
	for i := range int64(500) {
		batch = append(batch, record("t", i, value))
	}
	b.SetBytes(500 * int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Put(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}
