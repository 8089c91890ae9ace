package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// DefaultSlots is how many test processes of a machine may run brokers at the same time, unless SLUICE_KAFKA_SLOTS says
	// otherwise. "go test" runs as many packages at once as there are cores, and a broker of each would starve them all.
	DefaultSlots = 3

	// slotWait bounds the wait for a slot. It counts towards the test binary's own timeout.
	slotWait = 8 * time.Minute
)

// slots is the test process's claim to run brokers: one file lock for all its clusters together. One lock per cluster would let
// two processes that each hold one wait for a second one forever.
type slots struct {
	mu   sync.Mutex
	held *os.File // guarded by mu; locked while users > 0
	uses int      // guarded by mu
}

// acquire waits for a slot, or joins the one the process has.
func (s *slots) acquire(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uses == 0 {
		f, err := waitForSlot(ctx, os.TempDir())
		if err != nil {
			return err
		}
		s.held = f
	}
	s.uses++
	return nil
}

// release gives up one use; the last one frees the slot.
func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uses--; s.uses == 0 {
		_ = s.held.Close() // closing is what unlocks
		s.held = nil
	}
}

// waitForSlot locks one of the slot files in dir.
func waitForSlot(ctx context.Context, dir string) (*os.File, error) {
	count := DefaultSlots
	if v := os.Getenv("SLUICE_KAFKA_SLOTS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("SLUICE_KAFKA_SLOTS is %q, must be a number from 1", v)
		}
		count = n
	}
	ctx, cancel := context.WithTimeout(ctx, slotWait)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		for i := range count {
			f, err := tryLock(filepath.Join(dir, fmt.Sprintf("sluice-kafkatest-slot-%d", i)))
			if f != nil || err != nil {
				return f, err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for one of %d broker slots (files %s): other test processes hold them; SLUICE_KAFKA_SLOTS allows more: %w",
				count, filepath.Join(dir, "sluice-kafkatest-slot-*"), ctx.Err())
		}
	}
}

// tryLock locks the file, made if missing; nil without an error if another process has it. The lock ends with the file or process.
func tryLock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", name, err)
}
