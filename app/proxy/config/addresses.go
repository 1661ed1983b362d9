package config

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// A taken holds the addresses of one port that listeners have so far, each with the
// listener's name.
type taken struct {
	first, wildcard string // the first listener, and the first one for all addresses
	hosts           map[string]string
}

// checkAddresses checks that no two listeners have the same address: that would only be
// seen when the proxy starts.
func (d *decoder) checkAddresses(c *Config) {
	ports := map[string]*taken{}
	check := func(path, name, address, why string) {
		if other := claim(ports, name, address); other != "" && !d.faulty(path) {
			d.wrong(path, address, "is the address of "+other+" too"+why, "")
		}
	}
	for i, l := range c.Listen {
		at := fmt.Sprintf("listen[%d]", i)
		switch {
		case d.nodes[at] != nil:
			check(at+".address", at, l.Address, "")
		case !d.doubtful("listen"):
			claim(ports, "the default listener", l.Address)
		}
	}
	check("admin.address", "admin", c.Admin.Address, "; clients must not reach the admin listener")
	if c.Jobs != nil {
		check("jobs.listen", "jobs.listen", c.Jobs.Listen, "; workers need a separate listener")
	}
	for i, u := range c.Upstreams {
		for j, server := range u.Servers {
			s := server.URL
			switch own := owner(ports, s); {
			case own == "" || strings.HasPrefix(own, "listen[") && c.Loops.Allow > 1:
			case own == "admin" || own == "jobs.listen":
				d.warn(c, d.item(fmt.Sprintf("upstreams[%d].servers[%d]", i, j)), s, "is the address of "+own+" of this proxy: clients would reach it")
			default:
				d.warn(c, d.item(fmt.Sprintf("upstreams[%d].servers[%d]", i, j)), s, "is the address of "+own+" of this proxy: requests come back, and get 508")
			}
		}
	}
}

// owner returns the name of the listener at the address of a server, "" if there is none.
func owner(ports map[string]*taken, server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	t := ports[cmp.Or(u.Port(), map[string]string{"https": "443"}[u.Scheme], "80")]
	if t == nil {
		return ""
	}
	for _, h := range hostsOf(u.Hostname()) {
		if t.hosts[h] != "" {
			return t.hosts[h]
		}
		if ip, err := netip.ParseAddr(h); err == nil && ip.IsLoopback() {
			return t.wildcard
		}
	}
	return ""
}

// claim takes an address for a listener. It returns the name of another one that has the
// address already, "" if there is none. Port 0 is a free one each time.
func claim(ports map[string]*taken, name, address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "0" {
		return ""
	}
	t := ports[port]
	if t == nil {
		t = &taken{first: name, hosts: map[string]string{}}
		ports[port] = t
	}
	hosts := hostsOf(host)
	other := t.wildcard
	if hosts == nil && t.first != name {
		other = t.first
	}
	for _, h := range hosts {
		if other == "" {
			other = t.hosts[h]
		}
	}
	if other != "" {
		return other
	}
	if hosts == nil {
		t.wildcard = name
	}
	for _, h := range hosts {
		t.hosts[h] = name
	}
	return ""
}

// hostsOf returns the addresses that a listener for a host can have, nil for all. A name
// other than localhost is not looked up.
func hostsOf(host string) []string {
	if strings.EqualFold(host, "localhost") {
		return []string{"127.0.0.1", "::1"}
	}
	ip, err := netip.ParseAddr(host)
	switch ip = ip.Unmap(); {
	case host == "" || err == nil && ip.IsUnspecified():
		return nil
	case err == nil:
		return []string{ip.String()}
	}
	return []string{strings.ToLower(host)}
}
