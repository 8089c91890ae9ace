package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/IBM/sarama"
)

// groupResource is Kafka's config resource type of groups, which sarama has no
// name for.
const groupResource = sarama.ConfigResourceType(32)

// anyBroker asks whichever broker is at hand.
const anyBroker = int32(-1)

// SettingError is a group config that the broker refused, or that another
// broker does not apply.
type SettingError struct {
	Group   string
	Setting string // Kafka's name; empty where the broker did not say which.
	Value   string
	Err     error // With the broker's text.
}

// Error names the group and the setting, and gives the broker's text.
func (e *SettingError) Error() string {
	if e.Setting == "" {
		return fmt.Sprintf("set configs of group %q: %v", e.Group, e.Err)
	}
	return fmt.Sprintf("set %s=%s of group %q: %v", e.Setting, e.Value, e.Group, e.Err)
}

// Unwrap returns the cause.
func (e *SettingError) Unwrap() error { return e.Err }

// PermissionError is a missing right that a person must give, or use in our
// place.
type PermissionError struct {
	Group   string
	Need    string // The ACL: "ALTER_CONFIGS on GROUP \"x\"".
	Command string // What someone with the right can run instead; may be empty.
	Err     error
}

// Error says which ACL is missing and which command does it by hand.
func (e *PermissionError) Error() string {
	text := fmt.Sprintf("group %q: %v: the ACL %s is needed", e.Group, e.Err, e.Need)
	if e.Command != "" {
		text += ", or someone who has it runs: " + e.Command
	}
	return text
}

// Unwrap returns [ErrDenied] and the cause.
func (e *PermissionError) Unwrap() []error { return []error{ErrDenied, e.Err} }

// groupConfig returns the configs a group has on one broker, defaults included.
func (a *Admin) groupConfig(ctx context.Context, group string, broker int32) (map[string]string, error) {
	var (
		config map[string]string
		err    error
	)
	if broker == anyBroker {
		config, err = a.describeConfig(ctx, groupResource, group)
	} else {
		config, err = await(ctx, &a.calls, func() (map[string]string, error) { return a.describeGroupOn(group, broker) })
	}
	return config, wrap(err, "describe configs of group %q", group)
}

func (a *Admin) describeGroupOn(group string, id int32) (map[string]string, error) {
	broker, err := a.sarama.Broker(id)
	if errors.Is(err, sarama.ErrBrokerNotFound) {
		if err = a.sarama.RefreshMetadata(); err == nil {
			broker, err = a.sarama.Broker(id)
		}
	}
	if err != nil {
		return nil, err
	}
	response, err := broker.DescribeConfigs(&sarama.DescribeConfigsRequest{
		Version:   4,
		Resources: []*sarama.ConfigResource{{Type: groupResource, Name: group}},
	})
	if err != nil {
		return nil, err
	}
	config := make(map[string]string)
	for _, r := range response.Resources {
		if r.ErrorCode != 0 {
			return nil, &sarama.DescribeConfigError{Err: sarama.KError(r.ErrorCode), ErrMsg: r.ErrorMsg}
		}
		for _, c := range r.Configs {
			config[c.Name] = c.Value
		}
	}
	return config, nil
}

// alterGroup sets group configs; an empty value deletes one.
func (a *Admin) alterGroup(ctx context.Context, group string, values map[string]string, validateOnly bool) error {
	entries := make(map[string]sarama.IncrementalAlterConfigsEntry, len(values))
	for name, value := range values {
		e := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}
		if value == "" {
			e = sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationDelete}
		}
		entries[name] = e
	}
	_, err := await(ctx, &a.calls, func() (struct{}, error) {
		return struct{}{}, a.topics.IncrementalAlterConfig(groupResource, group, entries, validateOnly)
	})
	if err == nil {
		return nil
	}
	switch Kind(err) {
	case nil:
	case ErrDenied: //nolint:errorlint // Kind returns the value itself.
		return &PermissionError{
			Group: group, Need: fmt.Sprintf("ALTER_CONFIGS on GROUP %q", group),
			Command: a.configCommand(group, values), Err: err,
		}
	default:
		return wrap(err, "alter configs of group %q", group)
	}
	e := &SettingError{Group: group, Err: err}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		// The broker names the setting in its text, no more.
		if strings.Contains(err.Error(), name) && len(name) > len(e.Setting) {
			e.Setting, e.Value = name, values[name]
		}
	}
	return e
}

// configCommand is what an administrator runs to set values by hand.
func (a *Admin) configCommand(group string, values map[string]string) string {
	var set, unset []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if values[name] == "" {
			unset = append(unset, name)
		} else {
			set = append(set, name+"="+values[name])
		}
	}
	cmd := "kafka-configs.sh --bootstrap-server " + strings.Join(a.conn.Bootstrap, ",") +
		" --alter --entity-type groups --entity-name " + group
	if len(set) > 0 {
		cmd += " --add-config " + strings.Join(set, ",")
	}
	if len(unset) > 0 {
		cmd += " --delete-config " + strings.Join(unset, ",")
	}
	return cmd
}

// applied is what applyGroupConfigs did.
type applied struct {
	changed []Change
	values  map[string]string // In force on every leader.
	unknown []string          // Wanted, but this broker has no such config.
}

// Change is one group config that was written.
type Change struct{ Setting, From, To string }

// applyGroupConfigs writes what differs from want, then reads the configs back
// from each broker in leaders until all of them have the wanted values. Only
// a config whose default is empty may be wanted empty. Configs the broker does
// not know are reported, not written.
func (a *Admin) applyGroupConfigs(ctx context.Context, group string, want map[string]string, leaders []int32) (applied, error) {
	var done applied
	have, err := a.groupConfig(ctx, group, anyBroker)
	if errors.Is(err, ErrDenied) {
		return done, &PermissionError{
			Group: group, Need: fmt.Sprintf("DESCRIBE_CONFIGS on GROUP %q", group), Err: err,
		}
	}
	if err != nil {
		return done, err
	}
	write := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		from, known := have[name]
		switch {
		case !known:
			done.unknown = append(done.unknown, name)
		case !sameValue(from, want[name]):
			write[name] = want[name]
			done.changed = append(done.changed, Change{Setting: name, From: from, To: want[name]})
		}
	}
	if len(write) > 0 {
		if err := a.alterGroup(ctx, group, write, false); err != nil {
			return done, err
		}
		for _, c := range done.changed {
			a.log.Debug("group config set", "group", group, "setting", c.Setting, "from", c.From, "to", c.To)
		}
	}
	expect := maps.Clone(want)
	for _, name := range done.unknown {
		delete(expect, name)
	}
	done.values, err = a.awaitGroupConfigs(ctx, group, expect, leaders)
	return done, err
}

// awaitGroupConfigs reads a group's configs from each broker until all have
// what is expected, and returns the last broker's.
func (a *Admin) awaitGroupConfigs(ctx context.Context, group string, expect map[string]string, brokers []int32) (map[string]string, error) {
	if len(brokers) == 0 {
		brokers = []int32{anyBroker}
	}
	waiting := make(map[int32]error, len(brokers))
	for _, id := range brokers {
		waiting[id] = errors.New("not asked yet")
	}
	var values map[string]string
	bounded, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	err := poll(bounded, func() (bool, error) {
		for _, id := range slices.Sorted(maps.Keys(waiting)) {
			have, err := a.groupConfig(bounded, group, id)
			if err == nil {
				err = missing(group, have, expect)
			}
			if errors.Is(err, ErrDenied) {
				return false, err
			}
			if err != nil {
				waiting[id] = err
				continue
			}
			values = have
			delete(waiting, id)
		}
		return len(waiting) == 0, nil
	})
	if err != nil && ctx.Err() == nil {
		for _, id := range slices.Sorted(maps.Keys(waiting)) {
			return nil, fmt.Errorf("read configs of group %q back from broker %d: %w", group, id, waiting[id])
		}
	}
	return values, err
}

// missing returns the first expected value that have lacks.
func missing(group string, have, expect map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(expect)) {
		if want := expect[name]; !sameValue(have[name], want) {
			return &SettingError{Group: group, Setting: name, Value: want, Err: fmt.Errorf("it still has %q", have[name])}
		}
	}
	return nil
}

// sameValue compares config values as Kafka does: enumerations and booleans
// in any case.
func sameValue(x, y string) bool {
	return strings.EqualFold(strings.TrimSpace(x), strings.TrimSpace(y))
}
