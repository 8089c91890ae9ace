package sharegroup

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

// A worker that dies again and again takes few records along each time once they
// come close to their limit, wherever they are.
func TestFewRecordsCloseToTheirLimitDieWithAWorker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const each, often, careful = 100, 3, 4
		var keys []partitionKey
		broker := &modelBroker{session: map[partitionKey]bool{}, log: map[partitionKey][]modelRecord{}}
		for i := range rapid.IntRange(1, 5).Draw(t, "partitions") {
			key := partitionKey{pluginapi.TopicID{1}, int32(i)}
			keys = append(keys, key)
			broker.log[key] = make([]modelRecord, each)
			if i == 0 || rapid.Bool().Draw(t, "often delivered") {
				for o := range broker.log[key] {
					broker.log[key][o].count = often
				}
			}
		}
		near := func() (n int) {
			for _, log := range broker.log {
				for o := range log {
					if log[o].state == taken && log[o].count >= careful {
						n++
					}
				}
			}
			return n
		}
		life := func(answers int, decide bool) {
			broker.epoch = epochOpen
			broker.release()
			now, number := time.Unix(1_000_000, 0), sharetask.Session(0)
			s := newSession(limits{locks: 2000, records: 4000, bytes: 1 << 20, maxWait: idleWait, careful: careful},
				func() sharetask.Session { number++; return number })
			for _, key := range keys {
				p := &partition{}
				p.TopicID, p.Partition, p.Topic = key.topic, key.partition, "orders"
				s.place(key, p)
			}
			for range answers {
				req, until := s.plan(now, room{records: 1000, bytes: 1 << 20})
				if req == nil {
					if until.IsZero() || !decide { // It dies before it may go on.
						break
					}
					now = until
					continue
				}
				out := s.answered(broker.handle(t, req, 2000), now)
				if n := near(); n > mostCareful {
					t.Fatalf("%d records close to their limit are held", n)
				}
				for _, f := range out.fetched {
					for _, a := range f.acquired {
						if decide {
							f.part.decide(sharetask.Accept, a.Range)
						}
					}
				}
			}
			if decide && s.careful() > 0 {
				t.Fatal("care does not end where there is nothing left")
			}
		}
		for range rapid.IntRange(0, 5).Draw(t, "deaths") {
			life(rapid.IntRange(1, 10).Draw(t, "answers"), false)
		}
		life(10_000, true)
		for key, log := range broker.log {
			for o := range log {
				if log[o].state != accepted {
					t.Fatalf("record %d of partition %d was not accepted", o, key.partition)
				}
			}
		}
	})
}

// The closer to the limit, the fewer.
func TestCareGrowsWithTheDeliveryCount(t *testing.T) {
	for count, want := range map[int16]int{4: 1000, 5: 32, 6: 8, 7: 2, 8: 2, 100: 2} {
		s := newSession(limits{locks: 2000, records: 4000, bytes: 1 << 20, maxWait: idleWait, careful: 5}, func() sharetask.Session { return 1 })
		p := &partition{}
		p.TopicID, p.Topic = pluginapi.TopicID{1}, "orders"
		key := partitionKey{topic: p.TopicID}
		s.place(key, p)
		now := time.Unix(1_000_000, 0)
		for next := int64(0); p.held < 1000; {
			req, _ := s.plan(now, room{records: 1000 - p.held, bytes: 1 << 20})
			if req == nil {
				break
			}
			a := answer{lock: time.Minute, parts: map[partitionKey]*partAnswer{key: {leader: -1}}}
			if req.kind == fetch {
				if next == 0 && (req.records != leastCareful || !req.exact) {
					t.Errorf("the first fetch is for %d records, exactly %t", req.records, req.exact)
				}
				a.parts[key].acquired = []acquired{{sharetask.Range{First: next, Last: next + int64(req.records) - 1}, count}}
				next += int64(req.records)
			}
			s.answered(a, now)
		}
		if p.held != want {
			t.Errorf("delivered %d times: %d are held, want %d", count, p.held, want)
		}
	}
}

// Records close to their limit that are tried again for minutes do not keep the others waiting for as long.
func TestWhatIsTriedAgainDoesNotBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const each = 50
		broker := &modelBroker{session: map[partitionKey]bool{}, log: map[partitionKey][]modelRecord{}}
		s := newSession(limits{locks: 2000, records: 4000, bytes: 1 << 20, maxWait: idleWait, careful: 3}, func() sharetask.Session { return 1 })
		parts := rapid.IntRange(1, 5).Draw(t, "partitions")
		stuck := map[int64]bool{}
		for i := range parts {
			p := &partition{}
			p.TopicID, p.Partition, p.Topic = pluginapi.TopicID{1}, int32(i), "orders"
			key := partitionKey{p.TopicID, p.Partition}
			broker.log[key] = make([]modelRecord, each)
			s.place(key, p)
			if i > 0 {
				continue
			}
			for o := range rapid.IntRange(1, 10).Draw(t, "tried again") {
				stuck[int64(o)], broker.log[key][o].count = true, rapid.Int16Range(2, 8).Draw(t, "count")
			}
		}
		start := time.Unix(1_000_000, 0)
		now, accepted := start, 0
		for range 1000 {
			var req *request
			req, now = nextRequest(t, s, now)
			for _, f := range s.answered(broker.handle(t, req, 2000), now).fetched {
				for _, a := range f.acquired {
					for o := a.First; o <= a.Last; o++ {
						if f.part.Partition > 0 || !stuck[o] {
							f.part.decide(sharetask.Accept, sharetask.Range{First: o, Last: o})
							accepted++
						}
					}
				}
			}
			if accepted == parts*each-len(stuck) {
				break
			}
			now = now.Add(10 * time.Millisecond)
		}
		if took := now.Sub(start); accepted < parts*each-len(stuck) || took > 15*time.Second {
			t.Errorf("%d of %d others were accepted after %v", accepted, parts*each-len(stuck), took)
		}
	})
}

// nextRequest returns the session's next request, and when it comes.
func nextRequest(t *rapid.T, s *session, now time.Time) (*request, time.Time) {
	t.Helper()
	for range 100 {
		req, until := s.plan(now, room{records: 1000, bytes: 1 << 20})
		if req != nil {
			return req, now
		}
		if until.IsZero() {
			break
		}
		now = until
	}
	t.Fatal("nothing more is fetched")
	return nil, now
}

// Partitions in which nothing is close to its limit are soon read with both
// hands, and so they are where there is nothing to read, or nothing is decided.
func TestCareEndsSoon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		broker := &modelBroker{session: map[partitionKey]bool{}, log: map[partitionKey][]modelRecord{}}
		s := newSession(limits{locks: 2000, records: 4000, bytes: 1 << 20, maxWait: idleWait, careful: 3}, func() sharetask.Session { return 1 })
		parts, decides := rapid.IntRange(1, 20).Draw(t, "partitions"), rapid.Bool().Draw(t, "decides")
		for i := range parts {
			p := &partition{}
			p.TopicID, p.Partition, p.Topic = pluginapi.TopicID{1}, int32(i), "orders"
			key := partitionKey{p.TopicID, p.Partition}
			broker.log[key] = make([]modelRecord, rapid.SampledFrom([]int{0, 1000}).Draw(t, "records"))
			s.place(key, p)
		}
		now := time.Unix(1_000_000, 0)
		for fetches := 0; s.careful() > 0; {
			var req *request
			req, now = nextRequest(t, s, now)
			if req.kind == fetch {
				fetches++
			}
			if fetches > 2*parts+2 {
				t.Fatalf("care after %d fetches from %d partitions", fetches, parts)
			}
			for _, f := range s.answered(broker.handle(t, req, 2000), now).fetched {
				for _, a := range f.acquired {
					if decides {
						f.part.decide(sharetask.Accept, a.Range)
					}
				}
			}
		}
	})
}
