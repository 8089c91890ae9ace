package main

import "slices"

// span is the offsets from <= offset < to.
type span struct{ from, to int64 }

// spans is a set of offsets: sorted, and no two of its spans touch.
type spans []span

// add puts the offsets of x in.
func (s *spans) add(x span) {
	i := s.find(x.from)
	j := i
	for j < len(*s) && (*s)[j].from <= x.to {
		x.from, x.to = min(x.from, (*s)[j].from), max(x.to, (*s)[j].to)
		j++
	}
	*s = slices.Replace(*s, i, j, x)
}

// remove takes the offsets of x out.
func (s *spans) remove(x span) {
	i := s.find(x.from)
	var rest []span
	j := i
	for ; j < len(*s) && (*s)[j].from < x.to; j++ {
		if o := (*s)[j]; o.to > x.from {
			rest = append(rest, span{o.from, min(o.to, x.from)}, span{max(o.from, x.to), o.to})
		} else {
			rest = append(rest, o)
		}
	}
	rest = slices.DeleteFunc(rest, func(r span) bool { return r.from >= r.to })
	*s = slices.Replace(*s, i, j, rest...)
}

// find returns the place of the first span that ends at offset or after.
func (s *spans) find(offset int64) int {
	i, _ := slices.BinarySearchFunc(*s, offset, func(x span, offset int64) int {
		if x.to < offset {
			return -1
		}
		return 1
	})
	return i
}

// size is the number of offsets in the set.
func (s *spans) size() (n int64) {
	for _, x := range *s {
		n += x.to - x.from
	}
	return n
}
