package config

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// checkAcross reports connectors that get into each other's way. The one that
// stands later is not usable then, so that the other goes on.
func (l *loader) checkAcross(cfg *Config) {
	names := map[string]*Connector{}
	for _, c := range cfg.Connectors {
		key := strings.ToLower(c.Name)
		first, twice := names[key]
		switch {
		case twice && first.Name == c.Name:
			l.refuse(c, errorAt(c.DefRange, "Written twice", "There is a connector %q at %s already. Give one of them another name.", c.Name, place(first.DefRange)))
			continue
		case twice:
			l.refuse(c, errorAt(c.DefRange, "Names too alike", "The connector %q at %s differs only in upper and lower case, which file names and metrics may not keep apart. Give one of them another name.", first.Name, place(first.DefRange)))
			continue
		}
		names[key] = c
		for _, other := range cfg.Connectors {
			if other == c {
				break
			}
			if other.GroupID == c.GroupID && other.Name != c.Name && sameCluster(cfg, other, c) {
				l.refuse(c, errorAt(c.Ranges.At("group_id"), "Two connectors in one group",
					"Connector %q at %s is in the group %q too: each would get only a part of the records. Give one of them another group_id.", other.Name, place(other.DefRange), c.GroupID))
				break
			}
			if c.Retry.Topic != "" && (other.Retry.Topic == c.Retry.Topic || other.Reads(c.Retry.Topic)) && sameCluster(cfg, other, c) {
				l.refuse(c, errorAt(c.Ranges.At("retry.topic"), "Retry topic of two connectors",
					"Connector %q at %s reads the topic %q too, so it would put the records that %q parks. Give each a topic of its own.", other.Name, place(other.DefRange), c.Retry.Topic, c.Name))
				break
			}
			if other.Retry.Topic != "" && c.Reads(other.Retry.Topic) && sameCluster(cfg, other, c) {
				l.refuse(c, errorAt(c.topicsRange(), "Retry topic of another connector",
					"Connector %q at %s parks its records in %q. Choose other topics, or a pattern that leaves it out.", other.Name, place(other.DefRange), other.Retry.Topic))
				break
			}
		}
	}
	l.checkLoops(cfg)
}

func (l *loader) refuse(c *Connector, d *hcl.Diagnostic) {
	l.report(d)
	c.Usable = false
}

// sameCluster reports whether two connectors read from one cluster: by one
// connection, or by two that begin with the same broker.
func sameCluster(cfg *Config, a, b *Connector) bool {
	if a.Kafka == b.Kafka {
		return true
	}
	ka, kb := cfg.Kafka[a.Kafka], cfg.Kafka[b.Kafka]
	if ka == nil || kb == nil {
		return false
	}
	return slices.ContainsFunc(ka.Bootstrap, func(addr string) bool {
		return slices.ContainsFunc(kb.Bootstrap, func(other string) bool { return strings.EqualFold(addr, other) })
	})
}

// checkLoops reports connectors whose dead letters come back to them by way of
// others.
func (l *loader) checkLoops(cfg *Config) {
	next := func(c *Connector) []*Connector {
		if c.DeadLetterQueue == nil || c.DeadLetterQueue.Topic == "" {
			return nil
		}
		var out []*Connector
		for _, other := range cfg.Connectors {
			if other != c && other.Reads(c.DeadLetterQueue.Topic) && sameCluster(cfg, c, other) {
				out = append(out, other)
			}
		}
		return out
	}
	reported := map[*Connector]bool{}
	for _, start := range cfg.Connectors {
		if reported[start] {
			continue
		}
		var path []*Connector
		seen := map[*Connector]bool{}
		var walk func(c *Connector) bool
		walk = func(c *Connector) bool {
			path = append(path, c)
			for _, n := range next(c) {
				if n == start {
					return true
				}
				if !seen[n] {
					seen[n] = true
					if walk(n) {
						return true
					}
				}
			}
			path = path[:len(path)-1]
			return false
		}
		if !walk(start) {
			continue
		}
		chain := make([]string, 0, len(path)+1)
		for _, c := range path {
			chain = append(chain, c.Name)
			reported[c] = true
		}
		last := path[len(path)-1]
		l.refuse(last, errorAt(last.Ranges.At("dead_letter_queue.topic"), "Dead letters go in a circle",
			"Each of these connectors reads the dead letters of the one before: %s. Let one of them write to a topic that none reads.", strings.Join(append(chain, start.Name), " -> ")))
	}
}
