package sharegroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/sharetask"
)

// kindTimeout bounds a look at the group's kind while the source runs.
const kindTimeout = 10 * time.Second

// checkKind asks for the group's kind. A group that does not exist yet, or
// that we may not see, passes.
func (s *Source) checkKind(ctx context.Context, client *kgo.Client) error {
	var partial *kadm.ShardErrors
	groups, err := kadm.NewClient(client).ListGroups(ctx)
	group, listed := groups[s.opts.Group]
	switch {
	case listed && group.GroupType != "" && group.GroupType != "share":
		return fmt.Errorf("group of type %s: %w", group.GroupType, sharetask.ErrGroupKind)
	case listed, err == nil, errors.As(err, &partial) && !partial.AllFailed:
		return nil
	default:
		return fmt.Errorf("list groups: %w", err)
	}
}
