package sharegroup

// carefulRecords is how many records a session holds while some may be close to
// their delivery limit.
const carefulRecords = 32

// watch is whether a partition may have records that were delivered so often
// that a death of the worker must not take many of them along: one that just
// came, since the worker before may have died of them, and one that had some the
// last time. What a worker has learned of that dies with it, so each begins with
// care.
type watch struct {
	over   bool // Its records may come in any number.
	silent int  // Fetches since that brought nothing of it.
}

// careful reports whether only few records may be acquired, and as many as are
// asked for (KIP-1206).
func (s *session) careful() bool {
	if s.limits.careful == 0 {
		return false
	}
	for _, p := range s.parts {
		if !p.revoked && !p.watch.over {
			return true
		}
	}
	return false
}

// learn takes from an answer which partitions need care. The broker begins each
// fetch with another partition, so one that stays silent has nothing.
func (s *session) learn(a answer) {
	for key, p := range s.parts {
		pa := a.parts[key]
		if pa == nil || len(pa.acquired) == 0 {
			p.watch.silent++
			p.watch.over = p.watch.over || p.watch.silent > 2*len(s.parts)
			continue
		}
		p.watch = watch{over: true}
		for _, r := range pa.acquired {
			if r.deliveryCount >= s.limits.careful {
				p.watch = watch{}
			}
		}
	}
}
