package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"

	"github.com/weir-go/weir/app/proxy/listen"
)

// A listener is one open address: for clients, or for operators.
type listener struct {
	server       *listen.Server
	admin        bool
	closeStreams context.CancelFunc // ends its event streams
}

// A change describes what a new configuration does to the listeners.
type change struct {
	next  []listener // all listeners after the change
	fresh []listener // the new ones among them, which do not accept yet
	stale []listener // those that are closed
}

// A listenerSpec is a listener that the configuration requires.
type listenerSpec struct {
	config listen.Config
	admin  bool
}

func listenerSpecs(s Settings) []listenerSpec {
	var all []listenerSpec
	for _, c := range s.Listen {
		all = append(all, listenerSpec{c, false})
	}
	if s.Admin.Address != "" {
		all = append(all, listenerSpec{listen.Config{Address: s.Admin.Address}, true})
	}
	return all
}

// open opens the listeners of s that are not open yet. A listener that changes takes
// over the socket of its address. open alters nothing else, and after an error nothing
// at all.
func (p *proxy) open(s Settings) (change, error) {
	var c change
	var faults []error
	kept, taken := map[*listen.Server]bool{}, map[*listen.Server]bool{}
	for _, w := range listenerSpecs(s) {
		i := slices.IndexFunc(p.listeners, func(d listener) bool {
			return d.server.Config().Address == w.config.Address && !taken[d.server] // port 0 can occur twice
		})
		var old *listen.Server
		if i >= 0 {
			old = p.listeners[i].server
			taken[old] = true
			if p.listeners[i].admin == w.admin && old.Config().Equal(w.config) {
				kept[old] = true
				c.next = append(c.next, p.listeners[i])
				continue
			}
		}
		streams, closeStreams := context.WithCancel(p.base)
		server, err := listen.Open(w.config, p.serverOptions(w.admin, streams), old)
		if err != nil {
			closeStreams()
			faults = append(faults, err)
			continue
		}
		c.fresh = append(c.fresh, listener{server, w.admin, closeStreams})
		c.next = append(c.next, listener{server, w.admin, closeStreams})
	}
	if len(faults) > 0 {
		closeAll(c.fresh)
		return change{}, errors.Join(faults...)
	}
	for _, d := range p.listeners {
		if !kept[d.server] {
			c.stale = append(c.stale, d)
		}
	}
	return c, nil
}

func (p *proxy) serverOptions(operators bool, streams context.Context) listen.Options {
	o := listen.Options{Handler: http.Handler(p.public), Base: p.base, Logger: p.logger, Slots: p.slots, Lingering: &p.lingering, Fast: &p.fast, Rejected: p.rejected}
	if operators {
		// Operators can connect, and read errors, even if clients have taken all places.
		o.Handler, o.Slots, o.Lingering, o.Rejected = endStreams(streams, p.admin), nil, nil, nil
	}
	return o
}

// rejected logs and counts a response to a request that no handler has seen. It is called
// from any goroutine.
func (p *proxy) rejected(client net.Addr, status int) {
	p.access.Load().Rejected(client.String(), status)
}

// closeAll closes listeners that have not been used.
func closeAll(listeners []listener) {
	for _, d := range listeners {
		d.closeStreams()
		_ = d.server.Close() // it is unused
	}
}
