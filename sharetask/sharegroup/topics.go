package sharegroup

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicehq/sluice/pluginapi"
)

const (
	// regexEvery is how often topics that a regular expression matches are
	// looked for.
	regexEvery      = 30 * time.Second
	metadataTimeout = 10 * time.Second
	// tooManyTopics bounds what a regular expression may match.
	tooManyTopics = 10_000
)

// topics knows the topics' names, ids and leaders.
type topics struct {
	s     *Source
	regex *regexp.Regexp // Nil: names are given.
	wake  chan struct{}  // Capacity 1: look at the metadata.

	mu    sync.Mutex
	names []string                     // To subscribe to, sorted. Guarded by mu.
	known map[pluginapi.TopicID]string // Names by id. Guarded by mu.
}

func newTopics(s *Source) *topics {
	t := &topics{s: s, wake: make(chan struct{}, 1), known: map[pluginapi.TopicID]string{}}
	if s.opts.TopicRegex != "" {
		t.regex = regexp.MustCompile(s.opts.TopicRegex) // Options checked it.
	} else {
		t.names = slices.Clone(s.opts.Topics)
		slices.Sort(t.names)
		t.names = slices.Compact(t.names)
	}
	return t
}

// subscription returns the names to subscribe to.
func (t *topics) subscription() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names
}

// look asks for the metadata to be looked at.
func (t *topics) look() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run looks at the metadata whenever asked, and for a regular expression from
// time to time, until ctx ends.
func (t *topics) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failures := 0
	for {
		select {
		case <-timer.C:
		case <-t.wake:
		case <-ctx.Done():
			return
		}
		homeless, err := t.refresh(ctx)
		next := regexEvery
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			t.s.log.Warn("metadata of topics is not known, trying again", "err", explain(err))
			if fatal(err) {
				t.s.fail(err)
				return
			}
			fallthrough
		case homeless:
			next = min(firstPause<<min(failures, 10), maxRejoinPause)
			failures++
		default:
			failures = 0
		}
		timer.Reset(next)
	}
}

// refresh asks for the metadata and places the partitions that have no leader
// yet. It reports whether it has to be done again soon.
func (t *topics) refresh(ctx context.Context) (homeless bool, err error) {
	wanted := t.s.homeless()
	if t.regex == nil && len(wanted) == 0 && !t.s.late() {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	if t.regex != nil {
		req.Topics = nil // All of them.
	} else {
		for _, name := range t.names {
			rt := kmsg.NewMetadataRequestTopic()
			rt.Topic = kmsg.StringPtr(name)
			req.Topics = append(req.Topics, rt)
		}
	}
	resp, err := req.RequestWith(ctx, t.s.client)
	if err != nil {
		return true, fmt.Errorf("ask for metadata: %w", err)
	}
	leaders, changed, err := t.enter(resp)
	if err != nil {
		return true, err
	}
	if changed {
		t.s.member.signal()
	}
	return t.s.settle(leaders), nil
}

// enter takes what a response says. It returns the leaders of all partitions
// seen that have one, and whether the subscription changed.
func (t *topics) enter(resp *kmsg.MetadataResponse) (leaders map[partitionKey]int32, changed bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	leaders = map[partitionKey]int32{}
	var names []string
	for i := range resp.Topics {
		rt := &resp.Topics[i]
		if rt.Topic == nil {
			continue
		}
		if t.regex != nil && (rt.IsInternal || !t.regex.MatchString(*rt.Topic) || slices.Contains(t.s.opts.Exclude, *rt.Topic)) {
			continue
		}
		if rt.ErrorCode == kerr.TopicAuthorizationFailed.Code && t.regex == nil {
			return nil, false, fmt.Errorf("topic %q: %w", *rt.Topic, kerr.TopicAuthorizationFailed)
		}
		if rt.ErrorCode != 0 {
			continue // It may not exist yet.
		}
		names = append(names, *rt.Topic)
		t.known[rt.TopicID] = *rt.Topic
		for j := range rt.Partitions {
			if p := &rt.Partitions[j]; p.Leader >= 0 {
				leaders[partitionKey{rt.TopicID, p.Partition}] = p.Leader
			}
		}
	}
	if t.regex == nil {
		return leaders, false, nil
	}
	if len(names) > tooManyTopics {
		return nil, false, fmt.Errorf("the expression %q matches %d topics, more than %d", t.s.opts.TopicRegex, len(names), tooManyTopics)
	}
	slices.Sort(names)
	changed = !slices.Equal(names, t.names)
	t.names = names
	return leaders, changed, nil
}

// name returns a topic's name, and whether it is known.
func (t *topics) name(id pluginapi.TopicID) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name, ok := t.known[id]
	return name, ok
}
