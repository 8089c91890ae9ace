package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

const topicDeadLetterEnable = "errors.deadletterqueue.group.enable"

// Net is the group's own dead letter queue (KIP-1191) under ours: where the
// broker copies a record that used its last delivery up.
type Net struct {
	On bool
	// Reason says why there is none, or what is uncertain about it; empty
	// where it is on for sure.
	Reason string
}

// SetDeadLetterNet makes topic the group's own dead letter topic, with copies
// of the records, and reads that back from each broker that leads a partition
// of sources. The broker itself takes any name and then drops records in
// silence, so everything is checked first; what does not hold, a missing right
// too, gives no error but a Net that is off, with its reason. An empty topic
// turns the net off.
//
// With the net on, a dead-lettered record must be accepted, not rejected, or
// it is copied a second time.
func (a *Admin) SetDeadLetterNet(ctx context.Context, group, topic string, sources []string) (Net, error) {
	c, err := a.Capabilities(ctx)
	if err != nil {
		return Net{}, err
	}
	if !c.DeadLetterNet {
		return Net{Reason: fmt.Sprintf("the broker's share.version is %d, dead letter topics of groups need 2", c.ShareVersion)}, nil
	}
	var net Net
	if topic == "" {
		net.Reason = "it is turned off"
	} else if net.Reason, err = a.netObstacle(ctx, c, topic); err != nil {
		return Net{}, err
	}
	want := map[string]string{SettingDeadLetterTopic: topic, SettingDeadLetterCopy: "true"}
	if net.Reason != "" {
		// A net left behind would copy what we reject a second time, or to a
		// topic that drops it.
		want = map[string]string{SettingDeadLetterTopic: "", SettingDeadLetterCopy: "false"}
	}
	topics, err := a.Topics(ctx, sources...)
	if err != nil {
		return Net{}, err
	}
	done, err := a.applyGroupConfigs(ctx, group, want, leaders(topics))
	var permission *PermissionError
	if errors.As(err, &permission) {
		if net.Reason == "" {
			net.Reason = permission.Error()
		}
		return net, nil
	}
	if err != nil {
		return Net{}, err
	}
	if net.Reason == "" && len(done.unknown) > 0 {
		net.Reason = fmt.Sprintf("the broker has no group config %s", strings.Join(done.unknown, ", "))
	}
	net.On = net.Reason == ""
	if net.On && !c.DeadLetterPrefixKnown {
		net.Reason = fmt.Sprintf("the broker's configs may not be read (the ACL DESCRIBE_CONFIGS on CLUSTER is needed), "+
			"so %q as its prefix for dead letter topics is a guess", c.DeadLetterPrefix)
	}
	return net, nil
}

// netObstacle says why topic cannot be a group's dead letter topic.
func (a *Admin) netObstacle(ctx context.Context, c Capabilities, topic string) (string, error) {
	if !strings.HasPrefix(topic, c.DeadLetterPrefix) {
		return fmt.Sprintf("the name %q does not begin with %q, the broker's prefix for dead letter topics", topic, c.DeadLetterPrefix), nil
	}
	config, err := a.TopicConfig(ctx, topic)
	switch {
	case errors.Is(err, ErrUnknownTopic):
		return fmt.Sprintf("the topic %q does not exist", topic), nil
	case errors.Is(err, ErrDenied):
		return fmt.Sprintf("the configs of topic %q may not be read (the ACL DESCRIBE_CONFIGS on TOPIC is needed)", topic), nil
	case err != nil:
		return "", err
	case !sameValue(config[topicDeadLetterEnable], "true"):
		return fmt.Sprintf("the topic %q does not have %s=true", topic, topicDeadLetterEnable), nil
	}
	return "", nil
}
