package recordbatch

const (
	maxInterned      = 1024 // Names.
	maxInternedBytes = 128  // Of one name.
)

// interner keeps the strings of header names, which repeat from record to record.
type interner struct {
	recent [64]string // By hash: what most look-ups find.
	all    map[string]string
}

func (n *interner) intern(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > maxInternedBytes {
		return string(b)
	}
	slot := &n.recent[(len(b)*7+int(b[0])+int(b[len(b)/2])*3+int(b[len(b)-1])*5)%len(n.recent)]
	if *slot == string(b) {
		return *slot
	}
	s, ok := n.all[string(b)]
	if !ok {
		if n.all == nil || len(n.all) >= maxInterned {
			n.all = make(map[string]string, 16)
		}
		s = string(b)
		n.all[s] = s
	}
	*slot = s
	return s
}
