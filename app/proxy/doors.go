package proxy

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/weir-go/weir/app/proxy/listen"
)

// A door is a listener: for clients, or for operators.
type door struct {
	server *listen.Server
	admin  bool
	hush   context.CancelFunc // ends the streams of events that came through it
}

// A change is what a new configuration does to the doors.
type change struct {
	next  []door // all that there will be
	fresh []door // of these, the new ones, which do not accept yet
	stale []door // those that are let go
}

// A wish is a door that the configuration asks for.
type wish struct {
	config listen.Config
	admin  bool
}

func wishes(s Settings) []wish {
	var all []wish
	for _, c := range s.Listen {
		all = append(all, wish{c, false})
	}
	if s.Admin.Address != "" {
		all = append(all, wish{listen.Config{Address: s.Admin.Address}, true})
	}
	return all
}

// open opens the doors that s asks for and that are not open yet. A door that
// changes takes over the socket of its address. Nothing else is altered, and
// after an error nothing at all.
func (p *proxy) open(s Settings) (change, error) {
	var c change
	var faults []error
	kept, taken := map[*listen.Server]bool{}, map[*listen.Server]bool{}
	for _, w := range wishes(s) {
		i := slices.IndexFunc(p.servers, func(d door) bool {
			return d.server.Config().Address == w.config.Address && !taken[d.server] // port 0 may be there twice
		})
		var old *listen.Server
		if i >= 0 {
			old = p.servers[i].server
			taken[old] = true
			if p.servers[i].admin == w.admin && old.Config().Equal(w.config) {
				kept[old] = true
				c.next = append(c.next, p.servers[i])
				continue
			}
		}
		streams, hush := context.WithCancel(p.base)
		server, err := listen.Open(w.config, p.serverOptions(w.admin, streams), old)
		if err != nil {
			hush()
			faults = append(faults, err)
			continue
		}
		c.fresh = append(c.fresh, door{server, w.admin, hush})
		c.next = append(c.next, door{server, w.admin, hush})
	}
	if len(faults) > 0 {
		closeAll(c.fresh)
		return change{}, errors.Join(faults...)
	}
	for _, d := range p.servers {
		if !kept[d.server] {
			c.stale = append(c.stale, d)
		}
	}
	return c, nil
}

func (p *proxy) serverOptions(operators bool, streams context.Context) listen.Options {
	o := listen.Options{Handler: http.Handler(p.public), Base: p.base, Logger: p.logger, Slots: p.slots}
	if operators {
		// Operators get in when the clients have taken all slots.
		o.Handler, o.Slots = hushed(streams, p.operators), nil
	}
	return o
}

// closeAll closes doors that have not been used.
func closeAll(doors []door) {
	for _, d := range doors {
		d.hush()
		_ = d.server.Close() // nobody has used it
	}
}
