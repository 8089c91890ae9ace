package http

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/pluginapi"
)

// group is the records of a batch that go in one request.
type group struct {
	to      *request
	records []int    // Indexes into the batch.
	lines   [][]byte // Their JSON.
}

// putBatches sends the batch in as few requests as its URLs and headers allow.
func (s *sink) putBatches(ctx context.Context, batch []pluginapi.Record, report func(int, []pluginapi.Result)) error {
	groups := map[string]*group{}
	var order []*group
	for i := range batch {
		to, err := s.address(&batch[i])
		if err != nil {
			report(i, []pluginapi.Result{pluginapi.Rejected("template", err.Error())})
			continue
		}
		line, err := s.format.Append(nil, &batch[i])
		if err != nil {
			report(i, []pluginapi.Result{pluginapi.Rejected("format", err.Error())})
			continue
		}
		g := groups[to.key()]
		if g == nil {
			g = &group{to: to}
			groups[to.key()] = g
			order = append(order, g)
		}
		g.records = append(g.records, i)
		g.lines = append(g.lines, line)
	}
	for _, g := range order {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.putGroup(ctx, batch, g, report)
	}
	return ctx.Err()
}

// putGroup sends a group; one that is rejected or too large is halved until
// the record at fault is alone.
func (s *sink) putGroup(ctx context.Context, batch []pluginapi.Record, g *group, report func(int, []pluginapi.Result)) {
	r := s.send(ctx, g.to, s.join(g.lines), s.contentType(), batchID(batch, g.records))
	if r.Outcome == pluginapi.Reject && len(g.records) > 1 {
		half := len(g.records) / 2
		for _, part := range []*group{
			{to: g.to, records: g.records[:half], lines: g.lines[:half]},
			{to: g.to, records: g.records[half:], lines: g.lines[half:]},
		} {
			if ctx.Err() != nil {
				return
			}
			s.putGroup(ctx, batch, part, report)
		}
		return
	}
	for _, i := range g.records {
		report(i, []pluginapi.Result{r})
	}
}

func (s *sink) contentType() string {
	if s.array {
		return "application/json"
	}
	return "application/x-ndjson"
}

// join makes the body of several records.
func (s *sink) join(lines [][]byte) []byte {
	n := 2
	for _, l := range lines {
		n += len(l) + 1
	}
	body := make([]byte, 0, n)
	if s.array {
		body = append(body, '[')
	}
	for i, l := range lines {
		if s.array && i > 0 {
			body = append(body, ',')
		}
		body = append(body, l...)
		if !s.array {
			body = append(body, '\n')
		}
	}
	if s.array {
		body = append(body, ']')
	}
	return body
}

// sortedHeader returns the header's lines in order.
func sortedHeader(h http.Header) []string {
	out := make([]string, 0, len(h))
	for name, v := range h {
		out = append(out, name+": "+strings.Join(v, ", "))
	}
	slices.Sort(out)
	return out
}
