package intent

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// Source names the partition that claimed offsets are of. A topic that was
// deleted and made again is another one.
type Source struct {
	TopicID   [16]byte
	Partition int32
}

// String returns the topic's id and the partition's number.
func (s Source) String() string { return fmt.Sprintf("%x/%d", s.TopicID, s.Partition) }

// Claim says that a transaction writes the output of some offsets.
type Claim struct {
	ID     string // Unique.
	Writer string // Its transactional id: whom to fence.
	Source Source
	Ranges []Range // In order; none overlap.
	// Of is how many partitions the ledger had: claims of one source partition
	// are in one ledger partition only while that stays so.
	Of int32
}

// Bounds of a claim that is read.
const (
	maxRanges = 100_000
	maxText   = 1024
)

// ErrClaim is wrapped by every error of a record that is no claim.
var ErrClaim = errors.New("not a claim")

// frame is a claim as it is in the ledger: JSON, so that a person can read it.
type frame struct {
	Version   int        `json:"v"`
	ID        string     `json:"id"`
	Writer    string     `json:"writer"`
	Topic     string     `json:"topic_id"`
	Partition int32      `json:"partition"`
	Of        int32      `json:"of"`
	Ranges    [][2]int64 `json:"offsets"`
}

const frameVersion = 1

// Append appends c as a ledger record's value.
func (c *Claim) Append(dst []byte) []byte {
	f := frame{
		Version: frameVersion, ID: c.ID, Writer: c.Writer, Topic: hex.EncodeToString(c.Source.TopicID[:]),
		Partition: c.Source.Partition, Of: c.Of, Ranges: make([][2]int64, len(c.Ranges)),
	}
	for i, r := range c.Ranges {
		f.Ranges[i] = [2]int64{r.First, r.Last}
	}
	b, err := json.Marshal(&f)
	if err != nil {
		panic("intent: " + err.Error()) // It has nothing that cannot be.
	}
	return append(dst, b...)
}

// ParseClaim reads a ledger record's value. Errors wrap [ErrClaim].
func ParseClaim(value []byte) (*Claim, error) {
	var f frame
	if err := json.Unmarshal(value, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrClaim, err)
	}
	c := &Claim{ID: f.ID, Writer: f.Writer, Source: Source{Partition: f.Partition}, Of: f.Of}
	id, err := hex.DecodeString(f.Topic)
	switch {
	case f.Version != frameVersion:
		return nil, fmt.Errorf("%w: version %d, this worker knows %d", ErrClaim, f.Version, frameVersion)
	case err != nil || len(id) != len(c.Source.TopicID):
		return nil, fmt.Errorf("%w: topic id %.40q", ErrClaim, f.Topic)
	case f.ID == "" || len(f.ID) > maxText || f.Writer == "" || len(f.Writer) > maxText:
		return nil, fmt.Errorf("%w: id of %d bytes, writer of %d", ErrClaim, len(f.ID), len(f.Writer))
	case f.Partition < 0 || f.Of < 1:
		return nil, fmt.Errorf("%w: partition %d, ledger of %d partitions", ErrClaim, f.Partition, f.Of)
	case len(f.Ranges) == 0 || len(f.Ranges) > maxRanges:
		return nil, fmt.Errorf("%w: %d ranges of offsets", ErrClaim, len(f.Ranges))
	}
	copy(c.Source.TopicID[:], id)
	c.Ranges = make([]Range, len(f.Ranges))
	for i, r := range f.Ranges {
		if r[0] < 0 || r[1] < r[0] || i > 0 && r[0] <= f.Ranges[i-1][1] {
			return nil, fmt.Errorf("%w: offsets %d to %d", ErrClaim, r[0], r[1])
		}
		c.Ranges[i] = Range{First: r[0], Last: r[1]}
	}
	return c, nil
}
