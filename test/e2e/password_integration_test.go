package e2e

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/sluicehq/sluice/test/kafkatest"
)

var (
	// passwordFlag is how long the password of TestAPasswordThatStopsWorking does not work. From a minute on members that could not
	// leave are in the group as long as a broker's defaults say.
	passwordFlag        = flag.Duration("password", 12*time.Second, "how long a password does not work")
	passwordWorkersFlag = flag.Int("password-workers", 3, "workers that use the password")
	passwordLoginFlag   = flag.Duration("password-login", 3*time.Second, "how often the broker makes connections log in again")
)

var namesLogin = regexp.MustCompile(`(?i)SASL|authentication|credentials`)

// TestAPasswordThatStopsWorking under three workers of four tasks: the broker makes live connections log in again. None is dead-lettered
// or archived, each worker says why without flooding its log, and when the password works again everything is written by the same
// processes. Connections end one after the other, and what one worker loses another one gets that is about to lose it, and then nobody: a
// record spends two deliveries at most, and the one that writes it.
func TestAPasswordThatStopsWorking(t *testing.T) {
	t.Parallel()
	const user, good = "sluice", "the-old-password"
	properties := shortLocks()
	properties["connections.max.reauth.ms"] = fmt.Sprint(passwordLoginFlag.Milliseconds())
	if *passwordFlag < time.Minute {
		maps.Copy(properties, shortSessions())
	}
	c := kafkatest.New(t, kafkatest.Options{
		Properties: properties, Users: map[string]string{user: good},
		Listeners: []kafkatest.Listener{{Name: "LOGIN", Mechanisms: []string{"SCRAM-SHA-512"}}},
	})
	topic, dlq, group := c.Topic(t, 6), "dlq."+kafkatest.Name(t), kafkatest.Name(t)
	dst := newHTTPTarget(t)
	var slow atomic.Bool
	dst.answer = func(int) int {
		if slow.Load() { // So that the workers have more than they can write before they have to log in: nothing is waited for.
			time.Sleep(300 * time.Millisecond)
		}
		return http.StatusNoContent
	}
	text := strings.Replace(definitions(c, topic, group, httpSink(dst.server.URL, dlq, `tasks = 4
  batch {
    max_records = 20
  }
  share {
    acquisition_lock_timeout = "5s"
  }`)), fmt.Sprintf("bootstrap = [%q]", c.Bootstrap()[0]), fmt.Sprintf(`bootstrap = [%q]
  sasl {
    mechanism = "SCRAM-SHA-512"
    username  = %q
    password  = %q
  }`, c.BootstrapOf("LOGIN")[0], user, good), 1)
	all := make([]*worker, *passwordWorkersFlag)
	for i := range all {
		all[i] = newWorker(t, text)
		all[i].start()
	}
	produced := 0
	offer := func(backlog int) {
		if n := dst.arrived() + backlog - produced; n > backlog/4 {
			c.Produce(t, topic, produced, n, 200)
			produced += n
		}
	}
	offer(2000)
	await(t, time.Minute, "every worker writes", func() bool {
		offer(2000)
		for _, w := range all {
			if _, ok := w.get(t.Context(), "/healthz"); !ok || w.metric("sluice_records_accepted_total") < 100 {
				return false
			}
		}
		return true
	})
	setPassword := func(password string) {
		t.Helper()
		got, err := c.Admin(t).AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: user, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: password}})
		if err != nil || got.Error() != nil {
			t.Fatalf("alter password: %v, %v", err, got.Error())
		}
	}
	slow.Store(true)
	offer(6000)
	setPassword("another-password")
	rotated, seen, still := time.Now(), dst.arrived(), time.Now()
	await(t, *passwordFlag+time.Minute, "the time passes", func() bool {
		if now := dst.arrived(); now != seen {
			seen, still = now, time.Now()
		}
		return time.Since(rotated) > *passwordFlag
	})
	if time.Since(still) < *passwordFlag/4 {
		t.Errorf("records were written until %s before the end: the workers did not have to log in", time.Since(still))
	}
	left := produced - dst.arrived()
	slow.Store(false)
	setPassword(good)
	back := time.Now()
	await(t, 2*time.Minute, "every record arrives", func() bool { return dst.arrived() == produced })
	t.Logf("nothing was written from %.1fs on; %.1fs after the password worked again the %d left were", still.Sub(rotated).Seconds(), time.Since(back).Seconds(), left)
	if left < 1000 {
		t.Errorf("%d records were left when the workers could not log in: too few to tell", left)
	}
	awaitDrained(t, c, group)
	t.Logf("%.1fs after the password worked again the group had finished", time.Since(back).Seconds())
	minutes := time.Since(rotated).Minutes()
	for i, w := range all {
		highest, restarts := w.metric("sluice_delivery_count_highest"), w.metric("sluice_task_restarts_total")
		lines := w.complaints(rotated)
		names, kinds := 0, map[string]int{}
		for _, l := range lines {
			kinds[l.Message]++
			if namesLogin.MatchString(l.Text) {
				if names++; names == 1 {
					t.Logf("worker %d says after %.1fs: %s", i, l.Time.Sub(rotated).Seconds(), l.Text)
				}
			}
			if strings.Contains(l.Text, good) {
				t.Errorf("the password is in the log")
			}
		}
		t.Logf("worker %d: highest delivery count %.0f, %.0f restarts of its tasks, %d lines of WARN and ERROR, %d of them of the login: %v", i, highest, restarts, len(lines), names, kinds)
		if highest > 3 {
			t.Errorf("a record was delivered %.0f times, want 3 at most", highest)
		}
		if most := 40 + 6*minutes; names == 0 || float64(len(lines)) > most {
			t.Errorf("%d lines of WARN and ERROR in %.1f minutes, %d of them name the login; want one at least, and %.0f at most", len(lines), minutes, names, most)
		}
	}
	for _, w := range all {
		w.stop()
	}
	if letters := c.ReadAll(t, dlq); len(letters) != 0 {
		t.Errorf("%d dead letters, want none", len(letters))
	}
	_, extra := missing(dst.counts(produced))
	t.Logf("%d records, %d written twice", produced, extra)
}
