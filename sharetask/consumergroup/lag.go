package consumergroup

import "github.com/sluicehq/sluice/sharetask"

// Lags returns how many offsets each partition this member has now is behind:
// the log's end, as the last fetch told, without the position, below which all
// is decided. Offsets without a record (transaction markers, what compaction
// removed) count. It asks nobody, does not block, and is safe for concurrent
// use.
func (s *Source) Lags() map[sharetask.TopicPartition]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil
	}
	out := make(map[sharetask.TopicPartition]int64, len(s.current.parts))
	for _, p := range s.current.parts {
		end := p.firstEnd
		if p.end != nil {
			end = max(end, p.end())
		}
		out[p.TopicPartition] = max(0, end-p.tracker.position)
	}
	return out
}
