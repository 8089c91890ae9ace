package recordbatch

import (
	"errors"
	"fmt"
)

var (
	// ErrMissing is in a [Lost] whose offsets are in no batch that was read. Their
	// records may exist: release them, they come with another answer.
	ErrMissing = errors.New("not in the response")

	// ErrTooLarge is in a [Lost] whose batch decompresses to more than
	// [MaxBatchBytes]. It stays so however often the batch is read.
	ErrTooLarge = errors.New("batch decompresses to more than 256 MiB")
)

var errEnds = fmt.Errorf("%w: it ends before them", ErrMissing)

var (
	errShort    = errors.New("value runs over the end")
	errVarint   = errors.New("varint is too long")
	errLength   = errors.New("length is negative")
	errTrailing = errors.New("bytes follow the last field")
	errOrder    = errors.New("offsets are not in order")
	errRange    = errors.New("offset is outside of its batch")
	errCount    = errors.New("more is declared than fits in")
)
