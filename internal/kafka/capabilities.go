package kafka

import (
	"context"
	"errors"
	"regexp"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The group configs of share groups, in Kafka's names.
const (
	SettingReset           = "share.auto.offset.reset"
	SettingIsolation       = "share.isolation.level"
	SettingLock            = "share.record.lock.duration.ms"
	SettingSessionTimeout  = "share.session.timeout.ms"
	SettingHeartbeat       = "share.heartbeat.interval.ms"
	SettingDeliveryLimit   = "share.delivery.count.limit"
	SettingMaxRecordLocks  = "share.partition.max.record.locks"
	SettingRenew           = "share.renew.acknowledge.enable"
	SettingAssignInterval  = "share.assignment.interval.ms"
	SettingDeadLetterTopic = "errors.deadletterqueue.topic.name"
	SettingDeadLetterCopy  = "errors.deadletterqueue.copy.record.enable"
)

const (
	brokerDeadLetterPrefix  = "errors.deadletterqueue.topic.name.prefix"
	defaultDeadLetterPrefix = "dlq."
	shareVersionFeature     = "share.version"
)

// Bounds is a range a broker allows for a setting, both ends in it. The zero
// value is not known.
type Bounds struct{ Min, Max int64 }

// Known reports whether the broker told.
func (b Bounds) Known() bool { return b.Max > 0 }

// Capabilities is what every broker of a cluster can do: the least of them
// counts.
type Capabilities struct {
	Brokers          int
	ShareVersion     int  // Finalized level of share.version; 0 is none.
	ShareGroups      bool // Share groups work, as they do from Kafka 4.2 on.
	Renewal          bool // Acquisition locks can be renewed (KIP-1222), unless the group forbids it.
	DeliveryLimit    bool // The delivery limit is a group config (KIP-1240).
	DeadLetterNet    bool // The group may have a dead letter topic of its own (KIP-1191).
	DeadLetterPrefix string
	// DeadLetterPrefixKnown is false where the broker's configs may not be
	// read: DeadLetterPrefix is Kafka's default then.
	DeadLetterPrefixKnown bool

	Lock           Bounds // In milliseconds.
	DeliveryCounts Bounds
	// DefaultDeliveryLimit is the limit of groups that do not set it, or
	// cannot; 0 where the broker does not tell.
	DefaultDeliveryLimit int
	MaxRecordLocks       Bounds
}

// NeedShareGroups returns why action cannot be done, an [ErrUnsupported], where
// there are no share groups; nil where there are.
func (c Capabilities) NeedShareGroups(action string) error {
	if c.ShareGroups {
		return nil
	}
	return &Error{
		Action: action, Kind: ErrUnsupported,
		Err: errors.New("share groups need Kafka 4.2 and the feature share.version 1 or above"),
	}
}

// Capabilities asks every broker. What the ACLs hide is left unknown.
func (a *Admin) Capabilities(ctx context.Context) (Capabilities, error) {
	versions, err := a.groups.ApiVersions(ctx)
	if err != nil {
		return Capabilities{}, wrap(err, "ask brokers for their versions")
	}
	c := Capabilities{Brokers: len(versions), ShareGroups: true, DeadLetterPrefix: defaultDeadLetterPrefix}
	for _, v := range versions {
		if v.Err != nil {
			return Capabilities{}, wrap(v.Err, "ask broker %d for its versions", v.NodeID)
		}
		// The preview of 4.1 cannot renew locks: what is held for longer than
		// one would be delivered again and again.
		acknowledge, ok := v.KeyMaxVersion(int16(kmsg.ShareAcknowledge))
		_, fetch := v.KeyMaxVersion(int16(kmsg.ShareFetch))
		c.ShareGroups = c.ShareGroups && ok && fetch && acknowledge >= 2
		c.ShareVersion = max(c.ShareVersion, finalized(v, shareVersionFeature))
	}
	// Brokers that serve the requests may still have the feature turned off.
	c.ShareGroups = c.ShareGroups && c.ShareVersion >= 1
	c.Renewal = c.ShareGroups
	if !c.ShareGroups {
		return c, nil
	}
	// Any group's configs tell which there are; it need not exist.
	known, err := a.groupConfig(ctx, "sluice", anyBroker)
	if err != nil && !errors.Is(err, ErrDenied) {
		return Capabilities{}, err
	}
	_, c.DeliveryLimit = known[SettingDeliveryLimit]
	c.DeadLetterNet = c.ShareVersion >= 2
	return c, a.bounds(ctx, &c)
}

// bounds reads the broker's own configs, if it may.
func (a *Admin) bounds(ctx context.Context, c *Capabilities) error {
	broker, err := a.brokerConfig(ctx, anyBroker)
	if errors.Is(err, ErrDenied) {
		return nil
	}
	if err != nil {
		return err
	}
	if prefix, ok := broker[brokerDeadLetterPrefix]; ok {
		c.DeadLetterPrefix, c.DeadLetterPrefixKnown = prefix, true
	}
	read := func(minName, maxName string) Bounds {
		low, err1 := strconv.ParseInt(broker[minName], 10, 64)
		high, err2 := strconv.ParseInt(broker[maxName], 10, 64)
		if err1 != nil || err2 != nil {
			return Bounds{}
		}
		return Bounds{Min: low, Max: high}
	}
	c.DefaultDeliveryLimit, _ = strconv.Atoi(broker["group.share.delivery.count.limit"])
	c.Lock = read("group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms")
	c.DeliveryCounts = read("group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit")
	c.MaxRecordLocks = read("group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks")
	return nil
}

// finalized returns the cluster's level of a feature as a broker sees it.
func finalized(v kadm.BrokerApiVersions, feature string) int {
	if v.Raw() == nil {
		return 0
	}
	for _, f := range v.Raw().FinalizedFeatures {
		if f.Name == feature {
			return int(f.MaxVersionLevel)
		}
	}
	return 0
}

// refusedRange finds the bounds in a refusal such as "NAME must be in the range
// 2 to 10 inclusive.".
var refusedRange = regexp.MustCompile(`range (\d+) to (\d+)`)

// boundsInText returns the bounds a broker's refusal names.
func boundsInText(text string) Bounds {
	m := refusedRange.FindStringSubmatch(text)
	if m == nil {
		return Bounds{}
	}
	low, err1 := strconv.ParseInt(m[1], 10, 64)
	high, err2 := strconv.ParseInt(m[2], 10, 64)
	if err1 != nil || err2 != nil {
		return Bounds{}
	}
	return Bounds{Min: low, Max: high}
}
