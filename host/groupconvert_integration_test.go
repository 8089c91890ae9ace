package host

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/host/config"
	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/test/kafkatest"
)

// errCrash is where a cutAdmin cuts a run off.
var errCrash = errors.New("crashed here")

// cutAdmin fails at one call, before or after the broker has done it.
type cutAdmin struct {
	*kafka.Admin
	at    string
	after bool
	seen  func(call string) // Called before each call that is counted; may be nil.
	set   bool              // Positions were set.
}

func (a *cutAdmin) call(name string, f func() error) error {
	if a.seen != nil {
		a.seen(name)
	}
	if a.at == name && !a.after {
		return errCrash
	}
	if err := f(); err != nil {
		return err
	}
	if a.at == name {
		return errCrash
	}
	return nil
}

func (a *cutAdmin) DeleteGroup(ctx context.Context, group string) error {
	return a.call("delete", func() error { return a.Admin.DeleteGroup(ctx, group) })
}

func (a *cutAdmin) SetGroupPositions(ctx context.Context, group string, kind kafka.GroupKind, p []kafka.GroupPosition) error {
	a.set = true
	return a.call("set", func() error { return a.Admin.SetGroupPositions(ctx, group, kind, p) })
}

func (a *cutAdmin) GroupPositions(ctx context.Context, group string, kind kafka.GroupKind) (out []kafka.GroupPosition, err error) {
	name := "read"
	if a.set {
		name = "read back"
	}
	err = a.call(name, func() (err error) {
		out, err = a.Admin.GroupPositions(ctx, group, kind)
		return err
	})
	return out, err
}

// conversions is a broker with a topic of two partitions of 50 records.
type conversions struct {
	t     *testing.T
	admin *kafka.Admin
	topic string
}

func newConversions(t *testing.T) *conversions {
	t.Helper()
	cluster := kafkatest.New(t, kafkatest.Options{})
	admin, err := kafka.Open(t.Context(), kafka.Connection{Bootstrap: cluster.Bootstrap()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &conversions{t: t, admin: admin, topic: cluster.Topic(t, 2)}
	cluster.Produce(t, c.topic, 0, 100, 100)
	return c
}

// group makes a group at two positions.
func (c *conversions) group(t *testing.T, group, protocol string, zero, one int64) {
	t.Helper()
	err := c.admin.SetGroupPositions(t.Context(), group, groupKind(protocol), []kafka.GroupPosition{
		{Topic: c.topic, Offset: zero}, {Topic: c.topic, Partition: 1, Offset: one},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (c *conversions) converter(admin groupAdmin, dir, group, to string) *groupConverter {
	return &groupConverter{admin: admin, dir: dir, connector: "c", group: group, topics: []string{c.topic}, to: to}
}

// check looks for a group of a protocol at two positions.
func (c *conversions) check(t *testing.T, group, protocol string, zero, one int64) {
	t.Helper()
	kind, err := c.admin.GroupKind(t.Context(), group)
	if err != nil || groupProtocol(kind) != protocol {
		t.Errorf("got a group of kind %q, %v, want %s", kind, err, protocol)
	}
	got, err := c.admin.GroupPositions(t.Context(), group, kind)
	if err != nil || len(got) != 2 || got[0].Offset != zero || got[1].Offset != one {
		t.Errorf("got positions %+v, %v, want %d and %d", got, err, zero, one)
	}
}

func onlyFile(t *testing.T, dir string) groupFile {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("got files %v, %v, want one", names, err)
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	var f groupFile
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(names[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
	return f
}

func TestGroupConversion(t *testing.T) {
	c := newConversions(t)
	other := map[string]string{config.GroupShare: config.GroupConsumer, config.GroupConsumer: config.GroupShare}
	for _, to := range []string{config.GroupShare, config.GroupConsumer} {
		for _, at := range []string{"read", "delete", "set", "read back"} {
			for _, after := range []bool{false, true} {
				when := map[bool]string{false: "before", true: "after"}[after]
				t.Run("to "+to+" cut off "+when+" "+at, func(t *testing.T) {
					group, dir := kafkatest.Name(t), t.TempDir()
					c.group(t, group, other[to], 20, 30)
					_, err := c.converter(&cutAdmin{Admin: c.admin, at: at, after: after}, dir, group, to).run(t.Context())
					if !errors.Is(err, errCrash) {
						t.Fatalf("got %v, want %v", err, errCrash)
					}
					if at != "read" && !strings.Contains(err.Error(), dir) {
						t.Errorf("got %q, want it to name the file", err)
					}
					cluster, cerr := c.admin.ClusterID(t.Context())
					if cerr != nil {
						t.Fatal(cerr)
					}
					if err := checkGroupFile(dir, cluster, group); (err != nil) != (at != "read") || err != nil && !strings.Contains(err.Error(), "sluice group convert c --to "+to) {
						t.Errorf("a start in between: got %v", err)
					}
					got, err := c.converter(c.admin, dir, group, to).run(t.Context())
					if err != nil || got.Result != GroupConverted || got.Resumed != (at != "read") || got.From != other[to] {
						t.Errorf("got %+v, %v, want it converted", got, err)
					}
					c.check(t, group, to, 20, 30)
					if err := checkGroupFile(dir, cluster, group); err != nil {
						t.Errorf("a start afterwards: got %v", err)
					}
					if f := onlyFile(t, dir); f.Stage != stageDone {
						t.Errorf("the file's stage is %q, want %q", f.Stage, stageDone)
					}
					got, err = c.converter(c.admin, dir, group, to).run(t.Context())
					if err != nil || got.Result != GroupUnchanged {
						t.Errorf("again: got %+v, %v, want nothing done", got, err)
					}
				})
			}
		}
	}
	t.Run("records are parked", func(t *testing.T) {
		group, dir := kafkatest.Name(t), t.TempDir()
		c.group(t, group, config.GroupShare, 20, 30)
		c.group(t, group+retrySuffix, config.GroupShare, 48, 50)
		var left *ParkedError
		if _, err := c.converter(c.admin, dir, group, config.GroupConsumer).run(t.Context()); !errors.As(err, &left) || left.Records != 2 {
			t.Errorf("got %v, want it refused for two records", err)
		}
		c.check(t, group, config.GroupShare, 20, 30)
	})
	t.Run("saved before deleted", func(t *testing.T) {
		group, dir := kafkatest.Name(t), t.TempDir()
		c.group(t, group, config.GroupConsumer, 20, 30)
		var stages []string
		admin := &cutAdmin{Admin: c.admin, seen: func(call string) {
			if call == "read" {
				return
			}
			f := onlyFile(t, dir)
			stages = append(stages, call+" "+f.Stage)
			if len(f.Positions) != 2 || f.Positions[0].Offset != 20 || f.Positions[1].Offset != 30 {
				t.Errorf("before %s the file has %+v, want both positions", call, f.Positions)
			}
		}}
		if _, err := c.converter(admin, dir, group, config.GroupShare).run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []string{"delete deleting", "set setting", "read back setting"}; !slices.Equal(stages, want) {
			t.Errorf("got %v, want %v", stages, want)
		}
	})
	t.Run("back after a crash", func(t *testing.T) {
		group, dir := kafkatest.Name(t), t.TempDir()
		c.group(t, group, config.GroupConsumer, 20, 30)
		_, err := c.converter(&cutAdmin{Admin: c.admin, at: "delete", after: true}, dir, group, config.GroupShare).run(t.Context())
		if !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		got, err := c.converter(c.admin, dir, group, config.GroupConsumer).run(t.Context())
		if err != nil || got.Result != GroupConverted || !got.Resumed {
			t.Errorf("got %+v, %v, want the group as it was", got, err)
		}
		c.check(t, group, config.GroupConsumer, 20, 30)
	})
	t.Run("made anew after a crash", func(t *testing.T) {
		group, dir := kafkatest.Name(t), t.TempDir()
		c.group(t, group, config.GroupConsumer, 20, 30)
		_, err := c.converter(&cutAdmin{Admin: c.admin, at: "delete", after: true}, dir, group, config.GroupShare).run(t.Context())
		if !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		c.group(t, group, config.GroupConsumer, 0, 45)
		got, err := c.converter(c.admin, dir, group, config.GroupShare).run(t.Context())
		if err != nil || got.Twice != 15 {
			t.Errorf("got %+v, %v, want 15 twice", got, err)
		}
		c.check(t, group, config.GroupShare, 20, 30)
	})
	t.Run("dry run", func(t *testing.T) {
		group, dir := kafkatest.Name(t), t.TempDir()
		c.group(t, group, config.GroupConsumer, 20, 30)
		conv := c.converter(c.admin, dir, group, config.GroupShare)
		conv.dryRun = true
		got, err := conv.run(t.Context())
		if err != nil || got.Result != GroupPlanned || len(got.Positions) != 2 {
			t.Errorf("got %+v, %v, want a plan", got, err)
		}
		c.check(t, group, config.GroupConsumer, 20, 30)
		if _, err := os.Stat(got.File); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want no file", err)
		}
	})
	t.Run("no group", func(t *testing.T) {
		got, err := c.converter(c.admin, t.TempDir(), kafkatest.Name(t), config.GroupShare).run(t.Context())
		if err != nil || got.Result != GroupMissing {
			t.Errorf("got %+v, %v, want that there is none", got, err)
		}
	})
	t.Run("a member comes meanwhile", func(t *testing.T) {
		group, dir := kafkatest.Name(t), t.TempDir()
		c.group(t, group, config.GroupConsumer, 20, 30)
		_, err := c.converter(refusingAdmin{c.admin}, dir, group, config.GroupShare).run(t.Context())
		var members *GroupMembersError
		if !errors.As(err, &members) {
			t.Errorf("got %v, want a %T", err, members)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 0 {
			t.Errorf("got %v, %v, want no file of positions that the group leaves behind", left, err)
		}
	})
	t.Run("positions that do not stick", func(t *testing.T) {
		group, dir := kafkatest.Name(t), t.TempDir()
		c.group(t, group, config.GroupConsumer, 20, 30)
		_, err := c.converter(forgetfulAdmin{c.admin}, dir, group, config.GroupShare).run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "is at 19, want 20") {
			t.Errorf("got %v, want that the group is not where it should be", err)
		}
		if f := onlyFile(t, dir); f.Stage != stageSetting {
			t.Errorf("the file's stage is %q, want %q", f.Stage, stageSetting)
		}
	})
	t.Run("file that cannot be read", func(t *testing.T) {
		group, dir := kafkatest.Name(t), t.TempDir()
		c.group(t, group, config.GroupConsumer, 20, 30)
		conv := c.converter(c.admin, dir, group, config.GroupShare)
		conv.dryRun = true
		got, err := conv.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(got.File, []byte(`{"version": 1`), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = c.converter(c.admin, dir, group, config.GroupShare).run(t.Context())
		if err == nil || !strings.Contains(err.Error(), got.File) {
			t.Errorf("got %v, want an error that names it", err)
		}
		c.check(t, group, config.GroupConsumer, 20, 30)
	})
}

// refusingAdmin answers a delete as a broker does when a member has joined.
type refusingAdmin struct{ *kafka.Admin }

func (refusingAdmin) DeleteGroup(context.Context, string) error {
	return &kafka.Error{Action: "delete group", Kind: kafka.ErrGroupInUse, Err: errors.New("NON_EMPTY_GROUP")}
}

// forgetfulAdmin sets the first position wrong.
type forgetfulAdmin struct{ *kafka.Admin }

func (a forgetfulAdmin) SetGroupPositions(ctx context.Context, group string, kind kafka.GroupKind, p []kafka.GroupPosition) error {
	p[0].Offset--
	return a.Admin.SetGroupPositions(ctx, group, kind, p)
}
