package rpc

// The handshake's fixed words. They are part of the ABI.
const (
	// CookieKey and CookieValue are the environment variable that tells a
	// plugin it was started by a host. It is no secret.
	CookieKey   = "SLUICE_PLUGIN"
	CookieValue = "0b8f6f6b5f0c4d0e9f1d7f0c9c6c2a51"

	// PluginKey is the name under which go-plugin hands out the service.
	PluginKey = "sink"

	// LifelineKey is the environment variable that tells a plugin which of its
	// file descriptors is a pipe the host holds open for as long as it lives.
	LifelineKey = "SLUICE_LIFELINE_FD"

	// SharedKey is the environment variable that tells a plugin which of its
	// file descriptors is memory that the host writes put frames to.
	SharedKey = "SLUICE_SHARED_FD"

	// SocketsKey is the environment variable that tells a plugin which of its
	// file descriptors is a socket that the host passes put streams over.
	SocketsKey = "SLUICE_SOCKETS_FD"

	// CoreVersion is the version of go-plugin's handshake line.
	CoreVersion = 1
)

// Versions returns the protocol versions both host and SDK of this module
// speak, lowest first. The highest one in common is used.
func Versions() []int { return []int{1} }

// Limits of the transport, in bytes.
const (
	// ChunkBytes is the most data one chunk carries.
	ChunkBytes = 1 << 20
	// MaxMessageBytes is the largest gRPC message either side takes.
	MaxMessageBytes = 4 << 20
	// MaxRequestBytes is the largest put frame a plugin takes.
	MaxRequestBytes = 1 << 30
	// MaxResponseBytes is the largest frame the host takes from a plugin.
	MaxResponseBytes = 256 << 20
	// WindowBytes is the HTTP/2 flow control window of streams and
	// connections, on both sides.
	WindowBytes = 4 << 20
	// BufferBytes is what a connection gathers before it writes, and reads at
	// once, on both sides: a put of ordinary size in a system call or two.
	// gRPC gives the memory back between writes.
	BufferBytes = 256 << 10
)

// LogLevelKey is the environment variable that tells a plugin the lowest level
// its log lines are wanted at: debug, info, warn or error.
const LogLevelKey = "SLUICE_LOG_LEVEL"
