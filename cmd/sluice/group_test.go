package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/host"
	"github.com/sluicehq/sluice/host/config"
	"github.com/sluicehq/sluice/internal/kafka"
)

func TestPrintConversion(t *testing.T) {
	group := host.ConvertedGroup{
		Connector: "orders", Group: "g", From: "share", To: "consumer", Result: host.GroupConverted, File: "state/group-g.json",
		Positions: []host.GroupPosition{
			{Topic: "orders", Offset: 120, LogEnd: 400, Basis: host.BasisGroup, Twice: 30},
			{Topic: "orders", Partition: 1, LogEnd: 9, Basis: host.BasisReset, Note: "the group has no position here: earliest"},
		},
		Skipped: []host.GroupPosition{{Topic: "old", Offset: 7, Note: "the partition is not there any more"}},
		Twice:   30,
	}
	const table = `
TOPIC   PARTITION  STARTS AT  LOG END  TWICE AT MOST  NOTE
orders  0          120        400      30             
orders  1          0          9        0              the group has no position here: earliest
old     0          -          -        -              the partition is not there any more, it was at 7

At most 30 records, already written, are delivered a second time.
`
	for _, tt := range []struct {
		name string
		edit func(*host.ConvertedGroup)
		want string
	}{
		{
			"converted", func(*host.ConvertedGroup) {},
			"Group \"g\" of connector \"orders\" is converted from share to consumer.\n" + table +
				"The positions are kept in state/group-g.json.\n" +
				"Next: write group_protocol = \"consumer\" in connector \"orders\" before it is started.\n",
		},
		{
			"dry run, resumed", func(g *host.ConvertedGroup) { g.Result, g.Resumed = host.GroupPlanned, true },
			"Group \"g\" of connector \"orders\" would be converted from share to consumer. Nothing is changed.\n" +
				"An earlier run did not come to its end: the positions it saved are used.\n" + table,
		},
		{
			"unchanged", func(g *host.ConvertedGroup) { g.Result = host.GroupUnchanged },
			"Group \"g\" is a consumer group already: nothing is done.\n",
		},
		{
			"missing", func(g *host.ConvertedGroup) { g.Result = host.GroupMissing },
			"There is no group \"g\", or it may not be seen: nothing needs converting. Connector \"orders\" makes it when it starts.\n" +
				"A conversion that was cut off would have left state/group-g.json; if it ran elsewhere, finish it there.\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			g := group
			tt.edit(&g)
			if err := printConversion(&out, g, &config.Connector{GroupProtocol: "share"}); err != nil {
				t.Fatal(err)
			}
			if out.String() != tt.want {
				t.Errorf("got:\n%s\nwant:\n%s", out.String(), tt.want)
			}
		})
	}
}

func TestBrokerCode(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{&kafka.Error{Kind: kafka.ErrUnreachable, Err: errors.New("refused")}, exitUnreachable},
		{fmt.Errorf("connect: %w", &kafka.Error{Kind: kafka.ErrAuth, Err: errors.New("password")}), exitUnreachable},
		{&host.GroupMembersError{Group: "g", Connector: "c", Members: 2}, exitFailed},
		{&kafka.PermissionError{Group: "g", Err: errors.New("denied")}, exitFailed},
	} {
		if got := brokerCode(tt.err); got != tt.want {
			t.Errorf("%v: got %d, want %d", tt.err, got, tt.want)
		}
	}
}
