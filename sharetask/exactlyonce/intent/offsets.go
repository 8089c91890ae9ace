package intent

import "slices"

// Range is a range of source offsets, both ends in it.
type Range struct{ First, Last int64 }

// overlap reports whether two lists of ranges, each in order, share an offset.
func overlap(a, b []Range) bool {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].Last < b[0].First:
			a = a[1:]
		case b[0].Last < a[0].First:
			b = b[1:]
		default:
			return true
		}
	}
	return false
}

// offsets is a set of offsets: ranges in order, none of which touch.
type offsets []Range

// find returns the first range that ends at or after offset.
func (s offsets) find(offset int64) int {
	i, _ := slices.BinarySearchFunc(s, offset, func(r Range, offset int64) int {
		if r.Last < offset {
			return -1
		}
		return 1
	})
	return i
}

// overlaps reports whether an offset of r is in s.
func (s offsets) overlaps(r Range) bool {
	i := s.find(r.First)
	return i < len(s) && s[i].First <= r.Last
}

// with returns s and r.
func (s offsets) with(r Range) offsets {
	i := s.find(r.First - 1)
	j := i
	for j < len(s) && s[j].First <= r.Last+1 {
		r.First, r.Last = min(r.First, s[j].First), max(r.Last, s[j].Last)
		j++
	}
	return slices.Replace(s, i, j, r)
}

// from returns s without the ranges that end below offset.
func (s offsets) from(offset int64) offsets {
	return slices.Delete(s, 0, s.find(offset))
}
