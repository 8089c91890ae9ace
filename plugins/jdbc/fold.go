package jdbc

import (
	"slices"
	"strings"

	"github.com/sluicehq/sluice/pluginapi/data"
)

// fold puts rows, in the order of their delivery, into waves that are written one after the other. No wave has a key twice
// (PostgreSQL refuses a statement that does), and a row that a later one makes needless is folded under it. What the table
// holds in the end is what it would hold if the rows were written one by one.
func fold(upsert bool, rows []*row) [][]*row {
	if !upsert {
		return [][]*row{rows}
	}
	var waves []map[string]*row
	last := make(map[string]int, len(rows)) // Wave of the key's last row.
	for _, r := range rows {
		r.folded = nil
		w, ok := last[r.key]
		if ok {
			head := waves[w][r.key]
			switch {
			case r.replaces(head):
				r.folded = append(head.folded, head)
				head.folded = nil
				waves[w][r.key] = r
				continue
			case r.older(head):
				head.folded = append(head.folded, r)
				continue
			}
			w++
		}
		if w == len(waves) {
			waves = append(waves, make(map[string]*row))
		}
		waves[w][r.key] = r
		last[r.key] = w
	}
	out := make([][]*row, len(waves))
	for i, wave := range waves {
		for _, r := range wave {
			out[i] = append(out[i], r)
		}
		slices.SortFunc(out[i], func(a, b *row) int { return a.index - b.index })
		if exact(out[i]) {
			// Writers that take locks in one order do not deadlock.
			slices.SortFunc(out[i], func(a, b *row) int { return strings.Compare(a.key, b.key) })
		}
	}
	return out
}

// exact reports whether no two of the rows can be one to the database, so that their order does not matter.
func exact(rows []*row) bool {
	for _, r := range rows {
		if !r.exact {
			return false
		}
	}
	return true
}

// unfold returns the rows folded under r, in the order of their delivery, without r.
func (r *row) unfold() []*row {
	rows := r.folded
	r.folded = nil
	slices.SortFunc(rows, func(a, b *row) int { return a.index - b.index })
	return rows
}

// replaces reports whether writing r alone is the same as writing head and then r.
func (r *row) replaces(head *row) bool {
	if !r.shape.covers(head.shape) {
		return false
	}
	if r.version.Kind() == data.KindMissing {
		return true
	}
	order, ok := compareVersions(head.version, r.version)
	return ok && order <= 0
}

// older reports whether the database would not look at r after head. Should head be at fault, r counts after all, and a row
// that replaced head must have replaced r too: so head covers what is folded under it, always.
func (r *row) older(head *row) bool {
	if r.version.Kind() == data.KindMissing || !head.shape.covers(r.shape) {
		return false
	}
	order, ok := compareVersions(head.version, r.version)
	return ok && order > 0
}

// compareVersions compares versions where the order is beyond doubt. Texts are the database's to compare: it knows the
// column's type and collation.
func compareVersions(a, b data.Value) (order int, ok bool) {
	switch {
	case a.Kind().IsInteger() && b.Kind().IsInteger():
		return decimalOf(a).Cmp(decimalOf(b)), true
	case a.Kind() != b.Kind():
		return 0, false
	}
	switch a.Kind() {
	case data.KindDecimal:
		return a.Decimal().Cmp(b.Decimal()), true
	case data.KindTimestamp, data.KindDate:
		return a.Instant().Compare(b.Instant()), true
	case data.KindString:
		if a.Str() == b.Str() {
			return 0, true
		}
		// Two moments in UTC of one length are in the order of their text, whatever the column.
		ta, okA := momentOf(a.Str())
		tb, okB := momentOf(b.Str())
		if okA && okB && len(a.Str()) == len(b.Str()) && strings.HasSuffix(a.Str(), "Z") && strings.HasSuffix(b.Str(), "Z") {
			return ta.Compare(tb), true
		}
		return 0, false
	default:
		return 0, false
	}
}

func decimalOf(v data.Value) data.Decimal {
	text, _ := scalarText(v)
	d, _ := data.ParseDecimal(text) // An integer's text always is one.
	return d
}
