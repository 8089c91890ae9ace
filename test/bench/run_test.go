package bench

import (
	"os"
	"testing"
	"time"
)

func TestMarksReadTheProtocol(t *testing.T) {
	m := newMarks()
	m.attach(os.Getpid(), time.Unix(99, 0))
	for _, line := range []string{"noise", "first 100000000000", "first 100500000000", "half 6", "ages 1.5ms 20ms 1s", "last 102000000000 10", "last 103000000000 11"} {
		m.line(line)
	}
	s := newSample()
	m.fill(&s)
	if s.start != 1 || s.span != 2 || s.records != 10 || s.p50 != 0.0015 || s.p99 != 0.02 || s.peak < 1<<20 {
		t.Errorf("got %+v", s)
	}
}

func TestToolLine(t *testing.T) {
	m := newMarks()
	m.attach(os.Getpid(), time.Now())
	tool := tool{marks: m, want: 1000}
	for _, line := range []string{
		"start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms",
		"2026-01-31 12:00:00:000, 0, 0.0010, 0.0010, 1.0000, 1, 1000 for share consumer 1",
		"2026-01-31 12:00:00:050, 1, 0.5000, 9.0000, 9000.0000, 700, 50 for share consumer 1",
	} {
		tool.line(line)
	}
	if !m.hasBegun() || m.half != 700 || m.done != 0 {
		t.Errorf("before the end: begun %v, half at %d, %d records", m.hasBegun(), m.half, m.done)
	}
	tool.line("2026-01-31 11:59:59:000, 2026-01-31 12:00:00:060, 1.0000, 1.0000, 900.0000, 1000, 1060")
	if m.done != 700 || !m.last.Equal(tool.at) {
		t.Errorf("got %d records, want 700 of the last report", m.done)
	}
}

func TestReadLog(t *testing.T) {
	log := `{"time":"2026-01-31T12:00:09Z","level":"INFO","msg":"stopping"}
{"level":"INFO","msg":"records dropped","records":30,"first_put":"2026-01-31T12:00:02.5Z","last_put":"2026-01-31T12:00:04Z"}
not JSON
{"level":"INFO","msg":"records dropped","records":0,"first_put":"0001-01-01T00:00:00Z","last_put":"0001-01-01T00:00:00Z"}
{"level":"INFO","msg":"records dropped","records":20,"first_put":"2026-01-31T12:00:02Z","last_put":"2026-01-31T12:00:03Z"}
{"level":"INFO","msg":"plugin output","connector":"c","line":"records dropped records=1000000 first_put=2026-01-31T12:00:02.1Z last_put=2026-01-31T12:00:02.9Z"}
{"level":"INFO","msg":"ages of records","records":20,"p50":"1.5ms","p99":"2s","max":"3s"}
`
	m := newMarks()
	m.attach(0, time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC))
	s := newSample()
	if err := readLog([]byte(log), m, &s); err != nil {
		t.Fatal(err)
	}
	if s.records != 1_000_050 || s.start != 2 || s.span != 2 || s.p50 != 0.0015 || s.p99 != 2 {
		t.Errorf("got %+v", s)
	}
	if err := readLog(nil, m, &s); err == nil {
		t.Error("an empty log is no error")
	}
}
