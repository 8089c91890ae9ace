package sharegroup

import "time"

// How many records a session holds of partitions with some that are close to
// their delivery limit: the most at the first such count, a quarter at each after
// it. Of one that has shown none yet a fetch may bring the least, whatever is held:
// else a slow target would keep a worker from seeing the others.
const (
	mostCareful  = 32
	leastCareful = 2

	// careTime is how long the few of a fetch keep the next one waiting: some may
	// be tried again for minutes, which others must not wait for.
	careTime = time.Second
)

// watch is whether a partition may have records that were delivered so often
// that a death of the worker must not take many of them along: one that just
// came, since the worker before may have died of them, and one that had some the
// last time. What a worker has learned of that dies with it, so each begins with
// care.
type watch struct {
	over   bool      // Its records may come in any number.
	count  int       // How far from the first careful count they were; -1 before any came.
	silent int       // Fetches since that brought nothing of it.
	until  time.Time // Its held records count until then.
}

// most returns how many records may be held on this partition's account.
func (w watch) most() int64 {
	if w.count < 0 {
		return leastCareful
	}
	return int64(max(mostCareful>>min(2*w.count, 16), leastCareful))
}

// careful returns how many records may be held, 0 for any number. If few, a fetch
// brings no more than it asks for (KIP-1206).
func (s *session) careful() int64 {
	if s.limits.careful == 0 {
		return 0
	}
	var most int64
	for _, p := range s.parts {
		if w := p.watch; !p.revoked && !w.over && (most == 0 || w.most() < most) {
			most = w.most()
		}
	}
	return most
}

// near returns how many records are held that may be close to their limit, and
// until when the first of them count.
func (s *session) near(now time.Time) (n int64, until time.Time) {
	for _, p := range s.parts {
		if p.held > 0 && !p.watch.over && now.Before(p.watch.until) {
			n += int64(p.held)
			if until.IsZero() || p.watch.until.Before(until) {
				until = p.watch.until
			}
		}
	}
	return n, until
}

// learn takes from an answer which partitions need care. The broker begins each
// fetch with another partition, so one that stays silent has nothing.
func (s *session) learn(a answer, now time.Time) {
	for key, p := range s.parts {
		pa := a.parts[key]
		if pa == nil || len(pa.acquired) == 0 {
			p.watch.silent++
			p.watch.over = p.watch.over || p.watch.silent > 2*len(s.parts)
			continue
		}
		highest := int16(0)
		for _, r := range pa.acquired {
			highest = max(highest, r.deliveryCount)
		}
		p.watch = watch{over: highest < s.limits.careful, count: int(highest - s.limits.careful), until: now.Add(careTime)}
	}
}
