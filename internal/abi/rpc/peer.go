package rpc

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// PeerCredentials returns transport credentials without encryption that let
// only processes of the same user through, where the operating system can tell
// (Linux), and run ready on every connection let through. ready may be nil; it
// may run on several goroutines at once.
func PeerCredentials(ready func()) credentials.TransportCredentials {
	if ready == nil {
		ready = func() {}
	}
	return peerCredentials{TransportCredentials: insecure.NewCredentials(), ready: ready}
}

type peerCredentials struct {
	credentials.TransportCredentials
	ready func()
}

// ClientHandshake checks that the process that serves conn is this user's.
func (c peerCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if err := checkPeer(conn); err != nil {
		return nil, nil, err
	}
	c.ready()
	return c.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

// ServerHandshake checks that the process that dialled conn is this user's.
func (c peerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if err := checkPeer(conn); err != nil {
		return nil, nil, err
	}
	c.ready()
	return c.TransportCredentials.ServerHandshake(conn)
}

// Clone returns a copy.
func (c peerCredentials) Clone() credentials.TransportCredentials {
	c.TransportCredentials = c.TransportCredentials.Clone()
	return c
}
