package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
)

const (
	records     = 200_000
	mostRecords = 1_000_000 // A target counts the ids below it.
	kills       = 5
	recordLocks = 2000 // share.max_record_locks
	// producerBatch is the largest number of 1 KB records the harness's
	// producer puts into one batch of at most 1 MB.
	producerBatch = 1100
)

// form is one way to load a sink. target makes where the records go and the
// connector's sink and config.
type form struct {
	name   string
	target func(t *testing.T) (dst target, body string)
}

func forms() []form {
	file := func(sink string) func(*testing.T) (target, string) {
		return func(t *testing.T) (target, string) {
			path := filepath.Join(t.TempDir(), "out.jsonl")
			return &fileTarget{t: t, path: path}, fmt.Sprintf("sink = %q\n config {\n path = %q\n }", sink, path)
		}
	}
	return []form{
		{"builtin", file("builtin:file")},
		{"process", file("process:file")},
		{"wasm", func(t *testing.T) (target, string) {
			h := newHTTPTarget(t)
			return h, fmt.Sprintf("sink = \"wasm:webhook\"\n config {\n url = %q\n }", h.server.URL)
		}},
	}
}

// mode is one group protocol with the topic it is tried on.
type mode struct {
	name       string
	partitions int
	hcl        string
}

var modes = []mode{
	{"share", 1, "group_protocol = \"share\"\n tasks = 4"},
	{"consumer", 6, "group_protocol = \"consumer\"\n tasks = 1\n parallelism = 4\n consumer {\n session_timeout = \"6s\"\n }"},
}

var hostOfURL = regexp.MustCompile(`http://(127\.0\.0\.1:[0-9]+)`)

// httpSink is the body of a connector in a share group that sends to url, with a
// dead letter queue and more settings.
func httpSink(url, dlq, more string) string {
	return fmt.Sprintf(`group_protocol = "share"
  sink = "builtin:http"
  %s
  dead_letter_queue {
    topic = %q
  }
  config {
    url = %q
  }`, more, dlq, url)
}

// definitions writes a worker's connector "c" and what it needs. A module may
// call the host that body names.
func definitions(c *kafkatest.Cluster, topic, group, body string) string {
	allow := ""
	if m := hostOfURL.FindStringSubmatch(body); m != nil {
		allow = fmt.Sprintf("%q", m[1])
	}
	return fmt.Sprintf(`
kafka "main" {
  bootstrap = [%q]
}
plugin "webhook" {
  sandbox {
    allow_hosts = [%s]
  }
}
connector "c" {
  topics   = [%q]
  group_id = %q
  %s
}
`, c.Bootstrap()[0], allow, topic, group, body)
}

func TestEveryRecordArrives(t *testing.T) {
	t.Parallel()
	c := kafkatest.Shared(t)
	for _, m := range modes {
		topic := kafkatest.Name(t)
		c.CreateTopic(t, topic, m.partitions, -1, nil)
		c.Produce(t, topic, 0, records, 1000)
		for _, f := range forms() {
			t.Run(m.name+"/"+f.name, func(t *testing.T) {
				dst, body := f.target(t)
				w := newWorker(t, definitions(c, topic, kafkatest.Name(t), m.hcl+"\n"+body))
				w.start()
				begin := time.Now()
				await(t, 6*time.Minute, "every record is there", func() bool { return dst.arrived() == records })
				t.Logf("%d records in %.1fs with the start", records, time.Since(begin).Seconds())
				w.stop()
				if _, extra := missing(dst.counts(records)); extra > 0 {
					t.Errorf("%d records came twice without a fault", extra)
				}
			})
		}
	}
}

func TestKillsLoseNothing(t *testing.T) {
	t.Parallel()
	c := kafkatest.Shared(t)
	for _, m := range modes {
		for _, f := range forms() {
			t.Run(m.name+"/"+f.name, func(t *testing.T) {
				topic := kafkatest.Name(t)
				c.CreateTopic(t, topic, m.partitions, -1, nil)
				dst, body := f.target(t)
				// Small puts by one writer, so that a kill falls among them.
				small := "\n batch {\n max_records = 100\n }\n"
				w := newWorker(t, definitions(c, topic, kafkatest.Name(t), strings.Replace(m.hcl, "parallelism = 4", "parallelism = 1", 1)+"\n"+body+small))
				arrived := dst.arrived
				produced, restarts, backlog := 0, 0, records/16
				for fell := 0; fell < kills; restarts++ {
					// A quarter of what is there is waited for, and the kill falls among the rest. A sink that wrote the rest in the
					// meantime gets more: a kill with nothing in flight shows nothing.
					if produced+2*backlog > mostRecords {
						t.Fatalf("%d of %d kills fell with work in flight, of %d records", fell, restarts, produced)
					}
					c.Produce(t, topic, produced, backlog, 1000)
					produced += backlog
					next := arrived() + backlog/4
					w.start()
					await(t, 6*time.Minute, fmt.Sprintf("%d records arrive before kill %d", next, restarts+1), func() bool { return arrived() >= next })
					w.kill()
					if arrived() < produced {
						fell++
					} else {
						backlog *= 2
					}
				}
				c.Produce(t, topic, produced, backlog, 1000)
				produced += backlog
				w.start()
				await(t, 6*time.Minute, "every record is there", func() bool { return arrived() == produced })
				w.stop()
				_, extra := missing(dst.counts(produced))
				t.Logf("%d of %d records written twice in %d kills, %d of them with work in flight", extra, produced, restarts, kills)
				if bound := restarts * m.partitions * (recordLocks + producerBatch); m.name == "share" && extra > bound {
					t.Errorf("%d records were written twice, want at most %d", extra, bound)
				}
			})
		}
	}
}
