package bench

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

const (
	idleTime   = time.Minute
	idleSettle = time.Minute // By then fetches wait as long as they ever do.
	idleStart  = 5 * time.Minute
)

// idle measures a worker with n connectors that have nothing to do.
func (l *lab) idle(ctx context.Context, n int, name string) (s sample, err error) {
	s = newSample()
	client, err := l.newTopic(ctx, name, 1)
	if err != nil {
		return s, err
	}
	client.Close()
	address, err := freeAddress()
	if err != nil {
		return s, err
	}
	m := newMarks()
	c, err := l.startWorker(m, address, "bench", "builtin", fmt.Sprintf(`
connector "idle" {
  for_each       = [for i in range(%d) : format("%%04d", i)]
  sink           = "builtin:drop"
  topics         = [%q]
  group_protocol = "share"
  group_id       = "%s-${each.value}"
}
`, n, name, name))
	if err != nil {
		return s, err
	}
	defer func() { s.cpu = c.end(syscall.SIGTERM, endLimit) }()
	begin := time.Now()
	running := func() (int, error) {
		metrics, err := scrape(ctx, address)
		return int(metrics["sluice_task_running"]), err
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-c.done:
			return s, fmt.Errorf("the worker ended: %w\n%s", c.err, c.stderr.tail(20))
		case <-tick.C:
		}
		k, err := running()
		if err == nil && k == n {
			break
		}
		if time.Since(begin) > idleStart {
			return s, fmt.Errorf("%d of %d connectors run after %s: %w\n%s", k, n, idleStart, err, c.stderr.tail(20))
		}
	}
	s.start = time.Since(begin).Seconds()
	if err := pause(ctx, idleSettle); err != nil {
		return s, err
	}
	before, busy := m.usage(), l.busy()
	if err := pause(ctx, idleTime); err != nil {
		return s, err
	}
	after := m.usage()
	s.cpu1 = (after.cpu - before.cpu) / idleTime.Seconds()
	s.broker = l.busy() - busy
	s.peak = float64(after.peak)
	metrics, err := scrape(ctx, address)
	if err != nil {
		return s, err
	}
	s.heap = metrics["go_memstats_heap_inuse_bytes"] / float64(n)
	if k := int(metrics["sluice_task_running"]); k != n {
		return s, fmt.Errorf("only %d of %d connectors still run\n%s", k, n, c.stderr.tail(20))
	}
	return s, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
