package wasm

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// rules are what allow_hosts says.
type rules struct {
	hosts    []hostRule
	networks []netip.Prefix // Addresses may be reached by themselves, and by an allowed name.
}

type hostRule struct {
	host string // Lower case, without brackets.
	port uint16 // 0 means any.
}

// errForbidden is wrapped by what the rules refuse.
var errForbidden = errors.New("not allowed")

func parseRules(allow []string) (rules, error) {
	var r rules
	for _, entry := range allow {
		if prefix, err := netip.ParsePrefix(entry); err == nil {
			r.networks = append(r.networks, prefix.Masked())
			continue
		}
		rule, err := parseHost(entry)
		if err != nil {
			return rules{}, fmt.Errorf("allow_hosts entry %q: %w", entry, err)
		}
		r.hosts = append(r.hosts, rule)
	}
	return r, nil
}

func parseHost(entry string) (hostRule, error) {
	host, port, hasPort := entry, "", false
	if addr, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil && addr.Is6() {
		host = strings.Trim(entry, "[]")
	} else if strings.Contains(entry, ":") {
		var err error
		if host, port, err = net.SplitHostPort(entry); err != nil {
			return hostRule{}, errors.New("want host, host:port or a network")
		}
		hasPort = true
	}
	if host == "" || strings.ContainsAny(host, "/*@? ") {
		return hostRule{}, errors.New("want host, host:port or a network")
	}
	rule := hostRule{host: canonical(host)}
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return hostRule{}, fmt.Errorf("port %q is none", port)
		}
		rule.port = uint16(n)
	}
	return rule, nil
}

// canonical returns a host as rules compare it.
func canonical(host string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String()
	}
	return host
}

// host checks the host and port a request names.
func (r *rules) host(host string, port uint16) error {
	host = canonical(host)
	if r.lists(host, port) {
		return nil
	}
	if addr, err := netip.ParseAddr(host); err == nil && r.inNetwork(addr) {
		return nil
	}
	return fmt.Errorf("%w: %s is not in allow_hosts", errForbidden, net.JoinHostPort(host, strconv.Itoa(int(port))))
}

func (r *rules) lists(host string, port uint16) bool {
	for _, rule := range r.hosts {
		if rule.host == host && (rule.port == 0 || rule.port == port) {
			return true
		}
	}
	return false
}

func (r *rules) inNetwork(addr netip.Addr) bool {
	for _, n := range r.networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// address checks the address a connection is about to be made to, for a host
// that passed. Public addresses are fine; others must be listed themselves, so
// that a name cannot be pointed into the worker's own network.
func (r *rules) address(host string, addr netip.AddrPort) error {
	ip := addr.Addr().Unmap().WithZone("")
	switch {
	case isPublic(ip), r.lists(ip.String(), addr.Port()), r.inNetwork(ip):
		return nil
	case ip.IsLoopback() && isLocalhost(canonical(host)):
		return nil
	}
	return fmt.Errorf("%w: %s resolves to %s, which is not a public address: list the address in allow_hosts too", errForbidden, host, ip)
}

func isLocalhost(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// special are networks that are not public and that package netip does not
// tell: "this network", shared addresses of providers, protocol assignments,
// documentation, benchmarks, reserved; and IPv6 that carries an IPv4 address.
var special = [...]netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("fec0::/10"),
}

func isPublic(ip netip.Addr) bool {
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return false
	}
	for _, p := range special {
		if p.Contains(ip) {
			return false
		}
	}
	return true
}
