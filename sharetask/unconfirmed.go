package sharetask

// unconfirmed is what was accepted and is not confirmed by the broker yet, by
// partition: what each record is told by when its acceptance turns out to be
// lost. It holds eight bytes a record.
type unconfirmed map[TopicPartition][]acceptedRun

// acceptedRun is a run of accepted records without a gap.
type acceptedRun struct {
	session Session
	first   int64
	stamps  []int64 // Their timestamps, in nanoseconds since 1970.
}

func (r *acceptedRun) last() int64 { return r.first + int64(len(r.stamps)) - 1 }

// add enters records of d from lo to hi-1, whose offsets have no gap.
func (u unconfirmed) add(d *delivery, lo, hi int32) {
	stamps := make([]int64, hi-lo)
	for i := range stamps {
		stamps[i] = d.Records[lo+int32(i)].Timestamp.UnixNano() //nolint:gosec // Of one delivery.
	}
	u[d.TopicPartition] = append(u[d.TopicPartition], acceptedRun{session: d.Session, first: d.Records[lo].Offset, stamps: stamps})
}

// settle takes out what the broker confirmed, or lost: the ranges of a session,
// in order, or all of it where ranges is nil. each, if not nil, is called for
// each record.
func (u unconfirmed) settle(tp TopicPartition, s Session, ranges []Range, each func(offset, stamp int64)) {
	runs, kept := u[tp], u[tp][:0]
	var cut []acceptedRun // Remains of runs that were taken out in part.
	for _, run := range runs {
		if run.session != s {
			kept = append(kept, run)
			continue
		}
		cut = run.cut(cut, ranges, each)
	}
	clear(runs[len(kept):])
	if kept = append(kept, cut...); len(kept) == 0 {
		delete(u, tp)
		return
	}
	u[tp] = kept
}

// cut calls each for what ranges takes out of the run, and appends the rest to
// kept.
func (r acceptedRun) cut(kept []acceptedRun, ranges []Range, each func(offset, stamp int64)) []acceptedRun {
	if ranges == nil {
		ranges = []Range{{First: r.first, Last: r.last()}}
	}
	at, last := r.first, r.last()
	part := func(from, to int64) acceptedRun {
		return acceptedRun{session: r.session, first: from, stamps: r.stamps[from-r.first : to-r.first+1]}
	}
	for _, x := range ranges {
		lo, hi := max(x.First, at), min(x.Last, last)
		if lo > hi {
			continue
		}
		if lo > at {
			kept = append(kept, part(at, lo-1))
		}
		if each != nil {
			for o := lo; o <= hi; o++ {
				each(o, r.stamps[o-r.first])
			}
		}
		at = hi + 1
	}
	if at <= last {
		kept = append(kept, part(at, last))
	}
	return kept
}
