package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The isolation levels of a group.
const (
	ReadUncommitted = "read_uncommitted"
	ReadCommitted   = "read_committed"
)

// Reset says where a group begins a partition it has no position for. The zero
// value is earliest.
type Reset struct {
	latest bool
	back   time.Duration
}

// Earliest begins with the oldest record there is.
func Earliest() Reset { return Reset{} }

// Latest begins with what is produced after the group's first member came.
func Latest() Reset { return Reset{latest: true} }

// Back begins with what is at most d old. d is positive; milliseconds count.
func Back(d time.Duration) Reset { return Reset{back: d} }

// ParseReset reads "earliest", "latest", or a positive duration such as "1h".
func ParseReset(s string) (Reset, error) {
	switch s {
	case "earliest":
		return Earliest(), nil
	case "latest":
		return Latest(), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Millisecond {
		return Reset{}, fmt.Errorf("%q is not earliest, latest or a duration to go back, such as \"1h\"", s)
	}
	return Back(d), nil
}

// String returns the reset in the form of share.auto.offset.reset.
func (r Reset) String() string {
	switch {
	case r.back > 0:
		return "by_duration:PT" + strconv.FormatFloat(r.back.Truncate(time.Millisecond).Seconds(), 'f', -1, 64) + "S"
	case r.latest:
		return "latest"
	default:
		return "earliest"
	}
}

// ShareGroup says what a share group must be like before its first member
// joins.
type ShareGroup struct {
	ID     string
	Topics []string // What the group reads.
	Reset  Reset

	Isolation      string        // ReadUncommitted when empty.
	Lock           time.Duration // Acquisition lock; left as it is when 0.
	DeliveryLimit  int           // As high as the broker allows when 0.
	MaxRecordLocks int           // Left as it is when 0.
	// DenyRenew leaves share.renew.acknowledge.enable as it is; otherwise it
	// is turned on.
	DenyRenew bool
}

// Prepared is what a share group is like now, on every broker that leads one
// of its partitions.
type Prepared struct {
	New     bool     // There was no such group.
	Changed []Change // What was written, in order of the settings' names.
	// Missing are wanted configs that this broker's version does not have, so
	// its own defaults hold.
	Missing []string

	Lock           time.Duration // 0 where the broker does not tell, as before.
	DeliveryLimit  int
	MaxRecordLocks int
	Renewal        bool // The broker can renew locks and the group allows it.
	Isolation      string

	// StartOffsets are the first positions that were set because the group had
	// none, by topic and partition.
	StartOffsets map[string]map[int32]int64
	// Warning says what could not be made sure, in one sentence; mostly empty.
	Warning string
}

// PrepareShareGroup brings a share group's configs and first positions into
// force, so that members which join afterwards find them: it writes what
// differs, reads back from each broker that leads a partition of Topics, and,
// for [Earliest], gives partitions without any state their log start as
// position. Partitions with state are left alone. It may be run at any time,
// and by several workers at once.
//
// # Errors
//
// [*GroupKindError] if the id belongs to a group of another kind,
// [*SettingError] for a value the broker refuses, [*PermissionError] if a
// config differs and may not be altered, [ErrUnsupported] where there are no
// share groups, [ErrUnknownTopic] if one of Topics does not exist.
func (a *Admin) PrepareShareGroup(ctx context.Context, g ShareGroup) (Prepared, error) {
	var p Prepared
	if g.ID == "" {
		return p, errors.New("prepare share group: it has no id")
	}
	capabilities, err := a.Capabilities(ctx)
	if err != nil {
		return p, err
	}
	if err := capabilities.NeedShareGroups(fmt.Sprintf("prepare share group %q", g.ID)); err != nil {
		return p, err
	}
	kind, err := a.checkKind(ctx, g.ID, KindShare)
	if err != nil {
		return p, err
	}
	p.New = kind == KindNone
	topics, err := a.existing(ctx, g.Topics)
	if err != nil {
		return p, err
	}
	want, err := a.wantedConfigs(ctx, g, capabilities)
	if err != nil {
		return p, err
	}
	done, err := a.applyGroupConfigs(ctx, g.ID, want, leaders(topics))
	if err != nil {
		return p, err
	}
	p.fill(done, capabilities)
	if g.Reset == Earliest() {
		p.StartOffsets, p.Warning, err = a.startAtLogStart(ctx, g.ID, p.New, topics)
	}
	return p, err
}

// existing returns the named topics or an error that names the missing ones.
func (a *Admin) existing(ctx context.Context, names []string) ([]Topic, error) {
	topics, err := a.Topics(ctx, names...)
	if err != nil {
		return nil, err
	}
	var lacking []string
	for _, name := range names {
		if !slices.ContainsFunc(topics, func(t Topic) bool { return t.Name == name }) {
			lacking = append(lacking, strconv.Quote(name))
		}
	}
	if len(lacking) > 0 {
		return nil, &Error{
			Action: "look up topics", Kind: ErrUnknownTopic,
			Err: fmt.Errorf("%s (or it may not be seen: the ACL DESCRIBE on TOPIC is needed)", strings.Join(lacking, ", ")),
		}
	}
	return topics, nil
}

// leaders returns the brokers that lead a partition of topics.
func leaders(topics []Topic) []int32 {
	set := make(map[int32]bool)
	for _, t := range topics {
		for _, p := range t.Partitions {
			if p.Leader >= 0 {
				set[p.Leader] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

func (a *Admin) wantedConfigs(ctx context.Context, g ShareGroup, c Capabilities) (map[string]string, error) {
	want := map[string]string{SettingReset: g.Reset.String(), SettingIsolation: g.Isolation}
	if g.Isolation == "" {
		want[SettingIsolation] = ReadUncommitted
	}
	if g.Lock > 0 {
		want[SettingLock] = strconv.FormatInt(g.Lock.Milliseconds(), 10)
	}
	if g.MaxRecordLocks > 0 {
		want[SettingMaxRecordLocks] = strconv.Itoa(g.MaxRecordLocks)
	}
	if !g.DenyRenew && c.Renewal {
		want[SettingRenew] = "true"
	}
	limit := int64(g.DeliveryLimit)
	if limit == 0 && c.DeliveryLimit {
		bounds, err := a.deliveryBounds(ctx, g.ID, c)
		if err != nil {
			return nil, err
		}
		limit = bounds.Max
	}
	if limit > 0 {
		want[SettingDeliveryLimit] = strconv.FormatInt(limit, 10)
	}
	return want, nil
}

// deliveryBounds finds the broker's range of the delivery limit in its configs,
// or, where those may not be read, in its refusal of a number that cannot be
// right. It is unknown, and the limit left alone, where neither is allowed.
func (a *Admin) deliveryBounds(ctx context.Context, group string, c Capabilities) (Bounds, error) {
	if c.DeliveryCounts.Known() {
		return c.DeliveryCounts, nil
	}
	err := a.alterGroup(ctx, group, map[string]string{SettingDeliveryLimit: "1000000"}, true)
	var setting *SettingError
	switch {
	case errors.As(err, &setting):
		return boundsInText(setting.Err.Error()), nil
	case err == nil, errors.Is(err, ErrDenied):
		return Bounds{}, nil
	default:
		return Bounds{}, err
	}
}

func (p *Prepared) fill(done applied, c Capabilities) {
	p.Changed, p.Missing = done.changed, done.unknown
	number := func(name string) int {
		n, err := strconv.Atoi(done.values[name])
		if err != nil {
			return 0
		}
		return n
	}
	p.Lock = time.Duration(number(SettingLock)) * time.Millisecond
	if p.DeliveryLimit = number(SettingDeliveryLimit); p.DeliveryLimit == 0 {
		p.DeliveryLimit = c.DefaultDeliveryLimit
	}
	p.MaxRecordLocks = number(SettingMaxRecordLocks)
	p.Isolation = strings.ToLower(done.values[SettingIsolation])
	// Before 4.3 there is no such config, and renewal cannot be forbidden.
	allowed, known := done.values[SettingRenew]
	p.Renewal = c.Renewal && (!known || sameValue(allowed, "true"))
}
