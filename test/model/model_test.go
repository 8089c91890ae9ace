package model

import (
	"flag"
	"testing"
)

var (
	tasksFlag    = flag.Int("model-tasks", 2, "tasks, at most 3")
	attemptsFlag = flag.Int("model-attempts", 3, "attempts of each, at most 6 in all")
)

// TestNothingIsWrittenTwiceOrLost searches everything within the bounds.
func TestNothingIsWrittenTwiceOrLost(t *testing.T) {
	states, fault := Search(Ordered, *tasksFlag, *attemptsFlag)
	t.Logf("%d tasks, %d attempts of each: %d states", *tasksFlag, *attemptsFlag, states)
	for _, step := range fault {
		t.Error(step)
	}
}

// TestTheSearchFinds what is wrong with protocols that leave a part out.
func TestTheSearchFinds(t *testing.T) {
	for name, v := range map[string]Variant{"no look back": Unvalidated, "look up first": LookUp, "accept first": AcceptFirst} {
		t.Run(name, func(t *testing.T) {
			states, fault := Search(v, 2, 2)
			if fault == nil {
				t.Fatalf("%d states, and nothing wrong in any", states)
			}
			for _, step := range fault {
				t.Log(step)
			}
		})
	}
}
