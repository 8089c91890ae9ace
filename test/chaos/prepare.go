package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
	"github.com/sluicehq/sluice/test/sources"
)

// prepare starts all but the workers.
func (r *run) prepare() {
	var err error
	listeners := make([]kafkatest.Listener, workers)
	for i := range workers {
		if !r.plan.exactlyOnce() {
			r.toTarget = append(r.toTarget, r.newProxy())
		}
		var links []*Proxy
		for range brokers {
			links = append(links, r.newProxy())
		}
		r.toBroker = append(r.toBroker, links)
		listeners[i] = kafkatest.Listener{Name: fmt.Sprintf("WORKER%d", i+1), Advertised: addresses(links)}
	}
	r.cluster = kafkatest.New(r.tb, kafkatest.Options{Brokers: brokers, Listeners: listeners})
	r.admin = r.cluster.Admin(r.tb)
	for i, l := range listeners {
		for b, address := range r.cluster.BootstrapOf(l.Name) {
			r.toBroker[i][b].SetTarget(address)
		}
	}
	r.group = kafkatest.Name(r.tb)
	r.topic, r.letters = "in."+r.group, "dlq."+r.group
	r.cluster.CreateTopic(r.tb, r.topic, partitions, brokers, map[string]string{"min.insync.replicas": "2"})
	// The time a dead letter was written is the broker's.
	r.cluster.CreateTopic(r.tb, r.letters, partitions, brokers, map[string]string{
		"min.insync.replicas": "2", "message.timestamp.type": "LogAppendTime", "errors.deadletterqueue.group.enable": "true",
	})
	if r.plan.exactlyOnce() {
		r.copies = "out." + r.group
		r.cluster.CreateTopic(r.tb, r.copies, partitions, brokers, map[string]string{"min.insync.replicas": "2", "message.timestamp.type": "LogAppendTime"})
	}

	if r.dir, err = os.MkdirTemp("", "sluice-chaos-"); err != nil {
		r.tb.Fatal(err)
	}
	r.out.Logs = r.dir
	r.tb.Cleanup(func() {
		if r.tb.Failed() || r.plan.KeepLogs {
			r.log.Info("the workers' logs are kept", "folder", r.dir)
			_ = os.RemoveAll(filepath.Join(r.dir, "bin"))
			return
		}
		_ = os.RemoveAll(r.dir)
	})
	bin := filepath.Join(r.dir, "bin")
	r.must(build(r.tb.Context(), bin, r.plan))

	r.begin = time.Now()
	if r.plan.exactlyOnce() {
		r.seen = &marks{}
	} else {
		r.target, err = NewTarget(r.plan.Seed, r.begin, 2*r.requestTimeout())
		r.must(err)
		r.tb.Cleanup(r.target.Close)
		r.seen = &r.target.marks
	}
	for i := range workers {
		if r.target != nil {
			r.toTarget[i].SetTarget(r.target.Address())
		}
		w, err := newWorker(bin, r.dir, fmt.Sprintf("w%d", i+1), r.definitions(i))
		r.must(err)
		r.workers = append(r.workers, w)
		r.tb.Cleanup(func() { _ = w.kill() })
	}
}

func (r *run) newProxy() *Proxy {
	p, err := NewProxy()
	r.must(err)
	r.tb.Cleanup(p.Close)
	return p
}

func addresses(proxies []*Proxy) []string {
	var out []string
	for _, p := range proxies {
		out = append(out, p.Address())
	}
	return out
}

// withoutValidation is what links a worker that writes twice.
const withoutValidation = "-X github.com/sluicehq/sluice/sharetask/exactlyonce.validation=off"

// build compiles the program and the plugins.
func build(ctx context.Context, bin string, plan Plan) error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	if err := sources.Note(); err != nil {
		return fmt.Errorf("look at the sources: %w", err)
	}
	flags := ""
	if plan.Unvalidated {
		flags = withoutValidation
	}
	for out, pkg := range map[string]string{
		"sluice": "./cmd/sluice", "plugins/sluice-sink-http": "./plugins/http/sluice-sink-http", "plugins/sluice-sink-kafka": "./plugins/kafka/sluice-sink-kafka",
	} {
		cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", flags, "-o", filepath.Join(bin, out), pkg)
		cmd.Dir = root
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", pkg, err, text)
		}
	}
	return nil
}

// requestTimeout is the sink's bound on one request.
func (r *run) requestTimeout() time.Duration {
	if r.plan.Unknown {
		return 30 * time.Second
	}
	return 4 * time.Second
}

// definitions are those of worker i. All have the same connector, but for the addresses of the proxies.
func (r *run) definitions(i int) string {
	put := 20 * time.Second
	if r.plan.Unknown {
		put = 5 * time.Second
	}
	semantics, deliveries := "at-least-once", ""
	var settings string
	if r.plan.exactlyOnce() {
		// A record that many kills hit must not become a dead letter for that.
		semantics, deliveries, settings = "exactly-once", "max_delivery_count = 8", fmt.Sprintf("topic = %q", "{header."+routeHeader+"}")
	} else {
		settings = fmt.Sprintf(`url     = "http://%s/w%d"
    body    = "ndjson"
    include = ["topic", "partition", "offset"]
    timeout = "%v"`, r.toTarget[i].Address(), i+1, r.requestTimeout())
	}
	return fmt.Sprintf(`
kafka "main" {
  bootstrap = ["%s"]
}
connector %q {
  sink           = %q
  topics         = [%q]
  group_id       = %q
  group_protocol = "share"
  parallelism    = 3
  put_timeout    = "%v"
  delivery_semantics = %q
  share {
    acquisition_lock_timeout = "%v"
    %s
  }
  batch {
    max_records = 200
  }
  retry {
    max = "5s"
  }
  breaker {
    max = "5s"
  }
  dead_letter_queue {
    topic = %q
  }
  config {
    %s
  }
}
`, strings.Join(addresses(r.toBroker[i]), `", "`), connector, r.plan.Sink, r.topic, r.group, put, semantics, Lock, deliveries, r.letters, settings)
}
