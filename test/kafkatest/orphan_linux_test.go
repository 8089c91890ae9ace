package kafkatest

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// childVariable makes TestHoldABroker do something: it is the child process of TestBrokersEndWithAKilledProcess.
const childVariable = "KAFKATEST_HOLD"

func TestHoldABroker(t *testing.T) {
	if os.Getenv(childVariable) == "" {
		t.Skip("the other half of TestBrokersEndWithAKilledProcess")
	}
	c, err := start(t.Context(), findLibs(t, Version), Options{})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("broker %d in %s\n", c.brokers[0].cmd.Process.Pid, c.dir)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until the parent kills this process
}

// A test process that is killed runs no cleanup; the kernel ends its brokers, and the next start removes its folder.
func TestBrokersEndWithAKilledProcess(t *testing.T) {
	findLibs(t, Version)
	// The child must not wait for the slot this process may hold.
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestHoldABroker$")
	cmd.Env = append(os.Environ(), childVariable+"=1", "SLUICE_KAFKA_SLOTS=100")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("child said %q: %v", line, err)
	}
	var pid int
	var dir string
	if _, err := fmt.Sscanf(line, "broker %d in %s", &pid, &dir); err != nil {
		t.Fatalf("child said %q: %v", line, err)
	}
	if !alive(pid) {
		t.Fatalf("broker %d is not there", pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed

	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); alive(pid); {
		if time.Now().After(deadline) {
			t.Fatalf("broker %d outlives its killed test process", pid)
		}
		<-tick.C
	}
	sweep(os.TempDir())
	if exists(dir) {
		t.Errorf("folder %s of a killed process is still there", dir)
	}
}

// alive reports whether the process exists and is not just waiting to be reaped.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return !strings.HasPrefix(string(state), "Z")
}
