package kafkatest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// prepare chooses ports, writes the brokers' property files and formats their storage.
func (c *Cluster) prepare(ctx context.Context, libs string) error {
	names := []string{plaintext, controller}
	for _, l := range c.opts.Listeners {
		names = append(names, l.Name)
	}
	n := c.opts.brokers()
	free, err := freePorts(ctx, n*len(names))
	if err != nil {
		return err
	}
	for i := range n {
		of := map[string]int{}
		for j, name := range names {
			of[name] = free[i*len(names)+j]
		}
		c.ports = append(c.ports, of)
	}
	jars, err := classPath(libs)
	if err != nil {
		return err
	}
	log4j := filepath.Join(c.dir, "log4j2.xml")
	if err := os.WriteFile(log4j, log4jConfig, 0o600); err != nil {
		return fmt.Errorf("write log settings: %w", err)
	}
	flags := []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", fmt.Sprintf("-Xmx%dm", c.opts.heapMB())}
	if archive := archiveFile(libs); !c.opts.training && exists(archive) {
		flags = append(flags, "-XX:SharedArchiveFile="+archive)
	}
	flags = append(flags, "-Dlog4j2.configurationFile="+log4j, "-cp", jars)
	for i := range n {
		b := &broker{index: i, dir: filepath.Join(c.dir, fmt.Sprintf("broker%d", i))}
		b.logFile = filepath.Join(b.dir, "broker.log")
		if err := os.MkdirAll(b.dir, 0o700); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		file := filepath.Join(b.dir, "server.properties")
		if err := os.WriteFile(file, encode(properties(c.opts, i, c.ports, b.dataDir(), c.certs)), 0o600); err != nil {
			return fmt.Errorf("write properties: %w", err)
		}
		b.args = append(b.args, flags...)
		b.args = append(b.args, c.opts.JVMFlags...)
		b.args = append(b.args, "kafka.Kafka", file)
		c.brokers = append(c.brokers, b)
	}
	return c.format(ctx, flags)
}

// format writes the storage of broker 0 with Kafka's own tool and copies it to the others, which differ in their ids only: that saves
// a JVM for each.
func (c *Cluster) format(ctx context.Context, flags []string) error {
	cluster, err := newUUID()
	if err != nil {
		return err
	}
	first := c.brokers[0]
	args := append([]string{}, flags...)
	args = append(args, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", filepath.Join(first.dir, "server.properties"))
	args = append(args, c.opts.features()...)
	args = append(args, c.opts.scramUsers()...)
	cmd := exec.CommandContext(ctx, "java", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format storage: %w: %s", err, out)
	}
	for _, b := range c.brokers[1:] {
		if err := os.CopyFS(b.dataDir(), os.DirFS(first.dataDir())); err != nil {
			return fmt.Errorf("copy storage: %w", err)
		}
		id, err := newUUID()
		if err != nil {
			return err
		}
		meta := map[string]string{
			"version": "1", "cluster.id": cluster, "directory.id": id, "node.id": fmt.Sprint(b.index + 1),
		}
		if err := os.WriteFile(filepath.Join(b.dataDir(), "meta.properties"), encode(meta), 0o600); err != nil {
			return fmt.Errorf("write storage ids: %w", err)
		}
	}
	return nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
