package kafkatest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestValueAndID(t *testing.T) {
	tests := []struct {
		name     string
		id, size int
		want     int
	}{
		{"first", 0, 40, 40},
		{"kilobyte", 123, 1024, 1024},
		{"largest id", 999_999_999, 40, 40},
		{"too small a size", 7, 1, len(`{"id":7,"pad":""}`)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := Value(tt.id, tt.size)
			if len(v) != tt.want {
				t.Errorf("%d bytes, want %d: %s", len(v), tt.want, v)
			}
			if got, err := ID(append(v, '\n')); err != nil || got != tt.id {
				t.Errorf("id %d, %v, want %d", got, err, tt.id)
			}
		})
	}
	for _, bad := range []string{"", "x", "{}", `{"id":"a"}`} {
		if id, err := ID([]byte(bad)); err == nil {
			t.Errorf("ID(%q) = %d, want an error", bad, id)
		}
	}
}

func TestSlotsAreBounded(t *testing.T) {
	t.Setenv("SLUICE_KAFKA_SLOTS", "1")
	dir := t.TempDir()
	first, err := waitForSlot(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if f, err := waitForSlot(ctx, dir); err == nil {
		_ = f.Close()
		t.Fatal("got a second slot of one")
	}
	_ = first.Close()
	again, err := waitForSlot(t.Context(), dir)
	if err != nil {
		t.Fatalf("slot is not free again: %v", err)
	}
	_ = again.Close()
}

func TestSlotIsSharedByTheProcess(t *testing.T) {
	t.Setenv("SLUICE_KAFKA_SLOTS", "1")
	t.Setenv("TMPDIR", t.TempDir())
	var s slots
	for range 3 {
		if err := s.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		s.release()
	}
	if s.held != nil {
		t.Error("the slot is held by nobody and not free")
	}
}

func TestSweepLeavesTheLiving(t *testing.T) {
	tmp := t.TempDir()
	mk := func(name string) string {
		dir := filepath.Join(tmp, dirPrefix+name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	living, dead, young := mk("living"), mk("dead"), mk("young")
	lock, err := tryLock(filepath.Join(living, "owner"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := os.WriteFile(filepath.Join(dead, "owner"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sweep(tmp)
	for dir, want := range map[string]bool{living: true, dead: false, young: true} {
		if got := exists(dir); got != want {
			t.Errorf("%s exists: %v, want %v", filepath.Base(dir), got, want)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	tests := []struct {
		name string
		opts Options
		ok   bool
	}{
		{"zero", Options{}, true},
		{"too many", Options{Brokers: 6}, false},
		{"lower case listener", Options{Listeners: []Listener{{Name: "secure"}}}, false},
		{"listener that exists", Options{Listeners: []Listener{{Name: "PLAINTEXT"}}}, false},
		{"client certificate without TLS", Options{Listeners: []Listener{{Name: "A", ClientAuth: true}}}, false},
		{"advertised addresses", Options{Brokers: 3, Listeners: []Listener{{Name: "A", Advertised: []string{"a:1", "b:1", "c:1"}}}}, true},
		{"advertised addresses of too few", Options{Brokers: 3, Listeners: []Listener{{Name: "A", Advertised: []string{"a:1"}}}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.opts.validate(); (err == nil) != tt.ok {
				t.Errorf("validate: %v, want ok %v", err, tt.ok)
			}
		})
	}
}
