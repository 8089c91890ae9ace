//go:build !linux

package rpc

import "net"

// checkPeer lets every peer through: the socket lies in a directory that only
// this user may enter.
func checkPeer(net.Conn) error { return nil }
