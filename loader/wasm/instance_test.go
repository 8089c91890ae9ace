package wasm

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

func TestDescribe(t *testing.T) {
	m := open(t, "guest", Options{})
	d, err := m.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
	if d.Name != "guest" || d.Version != "1.2.3" || len(d.Settings) != 4 || !d.Can(pluginapi.CanCheck) || d.Can(pluginapi.CanReport) {
		t.Errorf("got %+v", d)
	}
	if got := d.Settings[2].Default; got != time.Second {
		t.Errorf("got default %v of type %T, want 1s", got, got)
	}
}

func TestPut(t *testing.T) {
	m := open(t, "guest", Options{})
	inst := start(t, m, nil, nil)
	schema := data.NewStruct("shop.Order", data.Field{Name: "id", Schema: &data.Schema{Kind: data.KindInt64}},
		data.Field{Name: "note", Schema: &data.Schema{Kind: data.KindString, Optional: true}})
	batch := records("accept", "echo ü\x00", "retry", "")
	batch[1].TopicID = pluginapi.TopicID{1}
	batch[1].Headers = []pluginapi.Header{{Key: "h", Value: pluginapi.BytesDatum([]byte("v"))}}
	batch[3].Value = pluginapi.Datum{}
	batch = append(batch, pluginapi.Record{Topic: "t", Value: pluginapi.DataDatum(&data.Typed{
		Schema: schema, Value: data.StructValue(schema, []data.Value{data.Int64(1 << 60), data.Null()}),
	})})
	want := []pluginapi.Result{
		{Outcome: pluginapi.Accept},
		pluginapi.Rejected("echo", "01000000000000000000000000000000/1/1 1234 v ü\x00 true"),
		pluginapi.Retried(&pluginapi.Error{Class: pluginapi.Throttled, Code: "429", RetryAfter: 1500 * time.Millisecond}),
		pluginapi.Rejected("tombstone", "t/1/3"),
		pluginapi.Rejected("shop.Order", `{"id":1152921504606846976,"note":null}`),
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		got := make([]pluginapi.Result, len(batch))
		err := inst.Put(ctx, batch, got)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			for i := range got {
				t.Errorf("result %d: got %+v %v, want %+v %v", i, got[i], got[i].Err, want[i], want[i].Err)
			}
		}
	}
	if err := inst.Put(t.Context(), nil, nil); err != nil {
		t.Errorf("empty batch: %v", err)
	}
	if inst.Gone() {
		t.Error("the instance is gone")
	}
}

func TestLargeBatches(t *testing.T) {
	m := open(t, "guest", Options{})
	inst := start(t, m, nil, nil)
	for _, size := range []int{1, 64 << 10, 5 << 20, 3, 6 << 20} {
		text := strings.Repeat("z", size)
		if code, msg := ask(t, inst, "echo "+text); code != "echo" || !strings.Contains(msg, "zz") && size > 1 {
			t.Errorf("%d bytes: got %q %.40q", size, code, msg)
		}
	}
	if code, _ := ask(t, inst, "echo after"); code != "echo" {
		t.Errorf("after the large one: got %q", code)
	}
}

// A batch that the module's memory has no room for is put in parts, and a record
// that has none by itself is rejected, once and alone (PLUG-07).
func TestABatchThatIsTooLargeIsPutInParts(t *testing.T) {
	inst := start(t, open(t, "guest", Options{}), nil, nil)
	values := make([]string, 60)
	for i := range values { // 48 MiB, where half of 64 is the most.
		values[i] = fmt.Sprint("accept ", strings.Repeat("z", 800<<10))
	}
	values[20] = "accept " + strings.Repeat("z", 40<<20)
	values[41] = "echo 41"
	results, err := put(t, inst, time.Minute, values...)
	if err != nil || inst.Gone() {
		t.Fatalf("got %v, gone %t", err, inst.Gone())
	}
	for i, r := range results {
		code := ""
		if r.Err != nil {
			code = r.Err.Code
		}
		switch want := map[int]string{20: codeTooLarge, 41: "echo"}[i]; {
		case want == "" && r.Outcome != pluginapi.Accept, code != want:
			t.Errorf("record %d: got %+v, %v", i, r, r.Err)
		}
	}
}

func TestErrorsOfTheSink(t *testing.T) {
	m := open(t, "guest", Options{})
	t.Run("start", func(t *testing.T) {
		inst, err := m.Instance(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = inst.Start(t.Context(), pluginapi.Config{Values: map[string]any{"mode": "refuse"}})
		want := &pluginapi.Error{Class: pluginapi.Invalid, Code: "E1", Message: "no such table", RetryAfter: time.Second}
		if got := pluginapi.AsError(err, 0); err == nil || *got != *want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if inst.Gone() {
			t.Error("the instance is gone")
		}
		if err := inst.Stop(t.Context()); err != nil {
			t.Errorf("stop after it: %v", err)
		}
	})
	t.Run("check", func(t *testing.T) {
		if err := start(t, m, nil, nil).Check(t.Context()); err != nil {
			t.Errorf("got %v, want nil", err)
		}
		err := start(t, m, map[string]any{"mode": "down"}, nil).Check(t.Context())
		if err == nil || err.Error() != "target is down" {
			t.Errorf("got %v, want target is down", err)
		}
	})
	t.Run("put", func(t *testing.T) {
		inst := start(t, m, map[string]any{"mode": "error"}, nil)
		results, err := put(t, inst, 20*time.Second, "a", "b")
		if !errors.Is(err, pluginapi.NewError(pluginapi.Unavailable, "57P03", "")) || inst.Gone() {
			t.Errorf("got %v, gone %t", err, inst.Gone())
		}
		if results[0].Outcome != pluginapi.Accept || results[1].Outcome != 0 {
			t.Errorf("got %+v, want one accepted and one unknown", results)
		}
	})
	for _, mode := range []string{"few", "many"} {
		t.Run(mode, func(t *testing.T) {
			inst := start(t, m, map[string]any{"mode": mode}, nil)
			results, err := put(t, inst, 20*time.Second, "a", "b")
			if e := pluginapi.AsError(err, 0); err == nil || e.Code != "bad_answer" {
				t.Errorf("got %v, want a bad answer", err)
			}
			if results[0].Outcome != 0 || results[1].Outcome != 0 {
				t.Errorf("got %+v, want nothing known", results)
			}
		})
	}
	t.Run("zero outcome", func(t *testing.T) {
		inst := start(t, m, map[string]any{"mode": "zero"}, nil)
		results, err := put(t, inst, 20*time.Second, "a", "b")
		if e := pluginapi.AsError(err, 0); err == nil || e.Code != "bad_answer" {
			t.Errorf("got %v, want a bad answer", err)
		}
		if results[0].Outcome != pluginapi.Accept || results[1].Outcome != 0 {
			t.Errorf("got %+v, want one accepted and one unknown", results)
		}
	})
}

// An endless loop, a panic, an exit or memory beyond the limit costs its instance,
// and no other one (PLUG-16, PLUG-19, PLUG-22).
func TestBadModulesAreGone(t *testing.T) {
	for _, tc := range []struct {
		value, code, text string
	}{
		{"panic boom", "panic", "boom"},
		{"gopanic boom", "crash", "panic: boom"},
		{"loop", "put_timeout", "stopped after its time"},
		{"sleep", "put_timeout", "stopped after its time"},
		{"memory", "crash", "memory limit"},
		{"exit", "crash", "exited with code 0"},
	} {
		t.Run(tc.value, func(t *testing.T) {
			t.Parallel()
			m := open(t, "guest", Options{MemoryBytes: 24 << 20, Grace: 100 * time.Millisecond})
			inst := start(t, m, map[string]any{"wait": time.Hour}, nil)
			if code, _ := ask(t, inst, "echo"); code != "echo" {
				t.Fatalf("before: got %q", code)
			}
			timeout := time.Minute
			if tc.code == "put_timeout" {
				timeout = 300 * time.Millisecond
			}
			began := time.Now()
			results, err := put(t, inst, timeout, "accept", tc.value)
			if tc.code == "put_timeout" {
				if took := time.Since(began); took > timeout+900*time.Millisecond {
					t.Errorf("it took %s", took)
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the deadline in its chain", err)
				}
			}
			wantGone(t, inst, err, tc.code, tc.text)
			if results[0].Outcome != 0 {
				t.Errorf("got %+v, want nothing known", results[0])
			}
			// The next instance of the module is as good as new.
			if code, _ := ask(t, start(t, m, nil, nil), "echo"); code != "echo" {
				t.Errorf("after: got %q", code)
			}
		})
	}
}

func TestCancelledPutStopsModule(t *testing.T) {
	m := open(t, "guest", Options{Grace: 50 * time.Millisecond})
	inst := start(t, m, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	err := inst.Put(ctx, records("loop"), make([]pluginapi.Result, 1))
	if !errors.Is(err, context.Canceled) || !inst.Gone() {
		t.Errorf("got %v, gone %t", err, inst.Gone())
	}
}

func TestModuleKeepsItsOwnDeadline(t *testing.T) {
	inst := start(t, open(t, "guest", Options{Grace: 10 * time.Second}), nil, nil)
	results, err := put(t, inst, 200*time.Millisecond, "accept", "wait")
	if err != nil || inst.Gone() {
		t.Fatalf("got %v, gone %t", err, inst.Gone())
	}
	if results[0].Outcome != pluginapi.Accept || results[1].Outcome != pluginapi.Retry {
		t.Errorf("got %+v", results)
	}
}

func TestPutAfterItsTimeCallsNothing(t *testing.T) {
	inst := start(t, open(t, "guest", Options{}), nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := inst.Put(ctx, records("panic"), make([]pluginapi.Result, 1))
	if !errors.Is(err, context.Canceled) || inst.Gone() {
		t.Errorf("got %v, gone %t", err, inst.Gone())
	}
}

func TestReportedResultsStand(t *testing.T) {
	m := open(t, "reporter", Options{})
	t.Run("all", func(t *testing.T) {
		results, err := put(t, start(t, m, nil, nil), 20*time.Second, "a", "b", "c")
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if r.Outcome != pluginapi.Accept {
				t.Errorf("result %d: got %+v", i, r)
			}
		}
	})
	t.Run("crash", func(t *testing.T) {
		inst := start(t, m, nil, nil)
		results, err := put(t, inst, 20*time.Second, "a", "skip", "c", "die", "e")
		wantGone(t, inst, err, "crash", "exited with code 7")
		for i, want := range []pluginapi.Outcome{1, 0, 1, 0, 0} {
			if results[i].Outcome != want {
				t.Errorf("result %d: got %+v, want outcome %d", i, results[i], want)
			}
		}
	})
	t.Run("left out", func(t *testing.T) {
		results, err := put(t, start(t, m, nil, nil), 20*time.Second, "a", "skip")
		if e := pluginapi.AsError(err, 0); err == nil || e.Code != "bad_answer" || results[0].Outcome != 1 || results[1].Outcome != 0 {
			t.Errorf("got %+v, %v", results, err)
		}
	})
}

func TestSandboxHasNothing(t *testing.T) {
	t.Setenv("SECRET", "x")
	inst := start(t, open(t, "guest", Options{}), nil, nil)
	if _, msg := ask(t, inst, "files"); msg != "true true 0 0" {
		t.Errorf("files, environment or arguments are there: %s", msg)
	}
	before := time.Now().UnixMilli()
	_, msg := ask(t, inst, "clock")
	if now, err := strconv.ParseInt(msg, 10, 64); err != nil || now < before || now > time.Now().UnixMilli() {
		t.Errorf("clock says %s, it is %d", msg, before)
	}
}

// A guest's collector gets to work between puts: else it goes on through hundreds of them, and all that writes pointers is slower.
func TestTheCollectorGetsItsTurn(t *testing.T) {
	inst := start(t, open(t, "guest", Options{}), nil, nil)
	for range 2000 {
		if cycles, seconds := ask(t, inst, "garbage"); cycles == "3" {
			if seconds == "0" {
				t.Error("three times all of it was done by who allocates")
			}
			return
		}
	}
	t.Error("nothing is collected")
}

func TestLog(t *testing.T) {
	var log logged
	inst := start(t, open(t, "guest", Options{}), map[string]any{"wait": 90 * time.Second}, log.logger().With("connector", "orders"))
	if _, err := put(t, inst, 20*time.Second, "log"); err != nil {
		t.Fatal(err)
	}
	if err := inst.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`level=WARN msg="plugin output" connector=orders line="started a=1 g.wait=1m30s g.text=\"two words\""`,
		`level=ERROR msg="plugin output" connector=orders line="from put n=1"`,
		`level=INFO msg="plugin output" connector=orders line="stopped without newline"`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in\n%s", want, log.String())
		}
	}
}

func TestLogFloodIsBounded(t *testing.T) {
	var log logged
	inst := start(t, open(t, "guest", Options{}), nil, log.logger())
	if _, err := put(t, inst, time.Minute, "flood"); err != nil {
		t.Fatal(err)
	}
	text := log.String()
	if n := strings.Count(text, "\n"); n > lineBurst+20*linesASecond+10 {
		t.Errorf("%d lines were logged", n)
	}
	if !strings.Contains(text, "plugin log lines dropped") {
		t.Error("it is not said that lines were dropped")
	}
	if len(text) > 1<<20 {
		t.Errorf("%d bytes were logged", len(text))
	}
	if strings.Contains(text, "\x1b") || strings.Contains(text, "\xff") {
		t.Error("control characters came through")
	}
}

// Instances of one module that are called at the same time (PLUG-20).
func TestInstancesAreApart(t *testing.T) {
	m := open(t, "guest", Options{})
	var wg sync.WaitGroup
	for n := range 6 {
		wg.Go(func() {
			inst := start(t, m, nil, nil)
			for i := range 30 {
				want := fmt.Sprintf("%d/%d", n, i)
				if _, msg := ask(t, inst, "echo "+want); !strings.Contains(msg, " "+want+" ") {
					t.Errorf("got %q, want %q in it", msg, want)
				}
			}
		})
	}
	wg.Wait()
}
