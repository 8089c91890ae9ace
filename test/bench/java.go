package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// compileSink compiles the Connect sink into the lab. It needs a JDK.
func (l *lab) compileSink() error {
	cmd := exec.Command("javac", "-d", filepath.Join(l.dir, "connect"), "-cp", filepath.Join(l.libs, "*"),
		filepath.Join(l.root, "test/bench/connectsink/CountingSink.java"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile the Connect sink: %w\n%s", err, out)
	}
	return nil
}

// serverFlags are those that Kafka's own scripts give its programs that run on.
var serverFlags = []string{
	"-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
	"-Djava.awt.headless=true",
}

// connect is a standalone worker of Kafka Connect with a sink that counts. tuned gives its consumer larger fetches.
func connect(tuned bool) subject {
	return func(ctx context.Context, l *lab, j job, group string, m *marks) (sample, error) {
		if err := l.sink(); err != nil {
			return newSample(), err
		}
		address, err := freeAddress()
		if err != nil {
			return newSample(), err
		}
		_ = os.Remove(filepath.Join(l.dir, "connect.offsets"))
		worker := map[string]string{
			"bootstrap.servers":            l.bootstrap,
			"key.converter":                "org.apache.kafka.connect.converters.ByteArrayConverter",
			"value.converter":              "org.apache.kafka.connect.converters.ByteArrayConverter",
			"offset.storage.file.filename": filepath.Join(l.dir, "connect.offsets"),
			"listeners":                    "http://" + address,
		}
		if tuned {
			worker["consumer.max.poll.records"], worker["consumer.fetch.min.bytes"] = "5000", "1048576"
		}
		connector := map[string]string{
			"name": group, "connector.class": "CountingSink", "topics": j.topic, "records": strconv.FormatInt(j.records, 10),
			"tasks.max": strconv.Itoa(min(j.writers, j.partitions)), "delay.ms": strconv.FormatInt(j.delay.Milliseconds(), 10),
		}
		files := []string{filepath.Join(l.dir, "worker.properties"), filepath.Join(l.dir, "connector.properties")}
		for i, p := range []map[string]string{worker, connector} {
			if err := writeProperties(files[i], p); err != nil {
				return newSample(), err
			}
		}
		args := append([]string{"-Xms256M", "-Xmx2G"}, serverFlags...)
		args = append(args, "-Dlog4j2.configurationFile="+filepath.Join(l.root, "test/bench/connectsink/log4j2.xml"),
			"-cp", filepath.Join(l.libs, "*")+":"+filepath.Join(l.dir, "connect"), "org.apache.kafka.connect.cli.ConnectStandalone")
		c, err := start(m, m.line, nil, "java", append(args, files...)...)
		if err != nil {
			return newSample(), err
		}
		err = await(ctx, c, m, j)
		s, unclear := conclude(c, m, syscall.SIGTERM)
		if err == nil {
			err = unclear
		}
		return s, err
	}
}

func writeProperties(file string, p map[string]string) error {
	var b strings.Builder
	for name, value := range p {
		fmt.Fprintf(&b, "%s=%s\n", name, value)
	}
	return os.WriteFile(file, []byte(b.String()), 0o600)
}

// shareTool is Kafka's own measuring program for share consumers. It acknowledges a poll's records with the next poll, and does
// nothing with them.
func shareTool(ctx context.Context, l *lab, j job, group string, m *marks) (sample, error) {
	if err := l.newShareGroup(ctx, group); err != nil {
		return newSample(), err
	}
	t := tool{marks: m, want: j.records}
	return l.java(ctx, m, j, t.line, "-Xmx512M", "-cp", filepath.Join(l.libs, "*"),
		"org.apache.kafka.tools.ShareConsumerPerformance", "--bootstrap-server", l.bootstrap, "--topic", j.topic, "--group", group,
		"--num-records", strconv.FormatInt(j.records, 10), "--timeout", "60000", "--show-detailed-stats", "--reporting-interval", "50")
}

// java runs a program that ends with its input, and whose lines of output tell m how far it is.
func (l *lab) java(ctx context.Context, m *marks, j job, line func(string), args ...string) (sample, error) {
	args = append([]string{"-Dlog4j2.configurationFile=" + filepath.Join(l.root, "test/bench/connectsink/log4j2.xml")}, args...)
	c, err := start(m, line, nil, "java", args...)
	if err != nil {
		return newSample(), err
	}
	err = await(ctx, c, m, j)
	s, unclear := conclude(c, m, 0)
	if err == nil {
		err = unclear
	}
	return s, err
}

// tool reads the statistics of the tool. While it runs, a line says how many records it has so far, the first one with the
// first record; at the end another gives the totals:
//
//	2026-01-31 12:00:00:000, 1, 96.5, 96.5, 98000.0, 100352, 1000 for share consumer 1
//	2026-01-31 12:00:00:000, 2026-01-31 12:00:10:000, 1269.5, 126.9, 130000.0, 1300000, 10000
//
// The last line of the first kind is taken for the end: it lacks the records of the last interval, and their time.
type tool struct {
	marks *marks
	want  int64
	done  int64
	at    time.Time
}

func (t *tool) line(line string) {
	fields := strings.Split(line, ", ")
	if len(fields) != 7 {
		return
	}
	n, err := strconv.ParseInt(fields[5], 10, 64)
	if err != nil || n == 0 {
		return
	}
	if !strings.Contains(line, "for share consumer") {
		t.marks.end(t.at, t.done)
		return
	}
	t.done, t.at = n, time.Now()
	t.marks.begin(t.at)
	if n >= t.want/2 {
		t.marks.halved(n)
	}
}
