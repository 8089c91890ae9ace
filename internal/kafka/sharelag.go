package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// lagIdle is when a connection that nothing is asked over is closed.
const lagIdle = 10 * time.Second

// ShareLag asks a share group's coordinator, time and again, how far the group
// is behind. It costs a connection for as long as an answer takes. It is safe
// for concurrent use.
type ShareLag struct {
	client *kgo.Client
	admin  *kadm.Client
	group  string
}

// NewShareLag returns the lag of a group. It opens no connection, but reads the
// connection's TLS files.
func NewShareLag(conn Connection, group string) (*ShareLag, error) {
	opts, err := conn.Franz()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(opts, kgo.ConnIdleTimeout(lagIdle))...)
	if err != nil {
		return nil, fmt.Errorf("connection %s: %w", conn, err)
	}
	return &ShareLag{client: client, admin: kadm.NewClient(client), group: group}, nil
}

// Read asks once, with one request. Positions of which the broker tells no lag,
// as before anything was read, are left out; a group that does not exist has
// none.
func (s *ShareLag) Read(ctx context.Context) ([]GroupPosition, error) {
	described, err := s.admin.DescribeShareGroupOffsets(ctx, s.group)
	if err == nil {
		err = described[s.group].Err
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	if errors.Is(Kind(err), ErrDenied) {
		return nil, &PermissionError{Group: s.group, Need: fmt.Sprintf("DESCRIBE on GROUP %q and on its topics", s.group), Err: err}
	}
	if err != nil {
		return nil, wrap(err, "read lag of group %q", s.group)
	}
	var out []GroupPosition
	for _, o := range described[s.group].Offsets.Sorted() {
		if o.Err == nil && o.Lag >= 0 {
			out = append(out, GroupPosition{Topic: o.Topic, Partition: o.Partition, Offset: o.StartOffset, Lag: o.Lag})
		}
	}
	return out, nil
}

// Close drops the connections.
func (s *ShareLag) Close() { s.client.Close() }
