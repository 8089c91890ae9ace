package kafkatest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
)

// dirPrefix begins the names of the folders clusters live in.
const dirPrefix = "sluice-kafkatest-dir-"

// sweep removes folders whose test process is gone: it was killed, or it held the shared cluster, which has no moment of its own to
// clean up. A living owner has its "owner" file locked.
func sweep(tmp string) {
	dirs, err := filepath.Glob(filepath.Join(tmp, dirPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		owner := filepath.Join(dir, "owner")
		if _, err := os.Stat(owner); err != nil {
			continue // just being made
		}
		f, err := tryLock(owner)
		if f == nil || err != nil {
			continue
		}
		_ = os.RemoveAll(dir) // not ours to report
		_ = f.Close()
	}
}

// freePorts chooses n ports of 127.0.0.1 that nobody listens on. They lie below the range the kernel takes the ports of outgoing
// connections from, so that a broker that was stopped finds its port free again.
func freePorts(ctx context.Context, n int) ([]int, error) {
	const low, high = 15000, 32000
	var ports []int
	taken := map[int]bool{}
	var listen net.ListenConfig
	for range 1000 {
		offset, err := rand.Int(rand.Reader, big.NewInt(high-low))
		if err != nil {
			return nil, fmt.Errorf("choose ports: %w", err)
		}
		port := low + int(offset.Int64())
		if taken[port] {
			continue
		}
		l, err := listen.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = l.Close() // it was only asked whether it is free
		taken[port] = true
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("choose %d ports: too few are free from %d to %d", n, low, high)
}

// newUUID makes an identifier as Kafka writes them: 16 bytes in base64, no padding.
func newUUID() (string, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return "", fmt.Errorf("make id: %w", err)
	}
	id[0] |= 0x40 // no id begins with "-", which the storage tool would take for a flag
	id[0] &= 0x7f
	return base64.RawURLEncoding.EncodeToString(id), nil
}
