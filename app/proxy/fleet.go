package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/gateway"
)

// redis returns the Options for the fleet's part of the configuration, nil for no
// fleet.
func redis(c *config.Config) (*weirredis.Options, error) {
	a, err := c.Redis()
	if a == nil || err != nil {
		return nil, err
	}
	o := &weirredis.Options{
		Addresses: a.Addresses, Cluster: a.Cluster, Username: a.Username, Password: a.Password, TLS: a.TLS,
		Prefix: a.Prefix, ClientName: "weir-proxy", Breaker: fleet.BreakerOptions{Deadline: a.Deadline},
	}
	if a.Master != "" {
		o.Sentinel = &weirredis.Sentinel{MasterSet: a.Master, Username: a.SentinelUsername, Password: a.SentinelPassword}
	}
	return o, nil
}

// fixedFleet returns the part of the fleet's configuration that needs a restart, as
// text. It contains the names of files; fixFiles adds their contents.
func fixedFleet(f *config.Fleet) string {
	if f == nil {
		return ""
	}
	fixed := *f
	fixed.RateFailure, fixed.Instances = "", 0
	text, err := json.Marshal(fixed)
	if err != nil {
		return err.Error() // nothing in it can fail to marshal
	}
	return string(text)
}

// A fleetClient is the proxy's connection to its fleet. The zero value has no fleet.
type fleetClient struct {
	tier *weirredis.Tier // nil: no fleet
	stop func()          // ends the watch
}

// connectFleet connects to the fleet of s. An unreachable Redis is not an error: the
// proxy works without the fleet until Redis is reachable. A Redis that rejects the
// configuration is an error.
func (p *proxy) connectFleet(ctx context.Context, s *Settings) error {
	if s.Fleet == nil || s.Gateway.Fleet == nil {
		return nil
	}
	o := *s.Fleet
	o.Replaced = func(k fleet.Key) {
		p.logger.Warn("a limit of the fleet began anew: another program had written under its key", "namespace", k.Namespace)
	}
	tier, err := weirredis.New(ctx, o)
	if err != nil {
		return &ConfigError{fmt.Errorf("fleet: %w", err)}
	}
	w := &watcher{p: p, where: strings.Join(s.Fleet.Addresses, ", ")}
	stop, err := tier.Watch(s.Gateway.Fleet.Namespace, w)
	if err != nil {
		_ = tier.Close(context.Background()) // it is unused
		return &ConfigError{fmt.Errorf("fleet: %w", err)}
	}
	if tier.State().Open {
		w.Lost()
	}
	p.fleet = fleetClient{tier, stop}
	s.Gateway.Fleet.Tier, s.Gateway.Fleet.Logger = tier, p.logger
	return nil
}

// keepFleet puts the current fleet into a new configuration: a reload can only change
// its settings for rates.
func (p *proxy) keepFleet(s *Settings) {
	was := p.settings.Gateway.Fleet
	if was == nil {
		s.Gateway.Fleet = nil
		return
	}
	now := *was
	if s.Gateway.Fleet != nil {
		now.RateFailure, now.Instances = s.Gateway.Fleet.RateFailure, s.Gateway.Fleet.Instances
	}
	s.Gateway.Fleet, s.Fleet = &now, p.settings.Fleet
}

// close leaves the fleet, after the gateway has left it.
func (c fleetClient) close() {
	if c.tier == nil {
		return
	}
	c.stop()
	_ = c.tier.Close(context.Background()) // the error does not matter any more
}

// roster returns the list of the fleet's instances, nil for no fleet.
func (c fleetClient) roster() fleet.Roster {
	if c.tier == nil {
		return nil
	}
	return c.tier
}

// fleetSummary describes in a few words what is shared where.
func fleetSummary(o *weirredis.Options, f *gateway.Fleet) string {
	kind := "redis "
	switch {
	case o.Cluster:
		kind = "redis cluster "
	case o.Sentinel != nil:
		kind = "redis " + o.Sentinel.MasterSet + ", by sentinels "
	}
	return kind + strings.Join(o.Addresses, ", ") + ", namespace " + f.Namespace
}

// A watcher logs when the proxy loses its connection to the fleet, and when the
// connection is restored.
type watcher struct {
	p     *proxy
	where string

	mu   sync.Mutex
	lost bool // guarded by mu
}

var _ fleet.Watcher = (*watcher)(nil)

func (*watcher) Changed(string, uint64, bool)       {}
func (*watcher) Pushed(string, fleet.Entry, uint64) {}
func (*watcher) Released(string)                    {}
func (*watcher) Tagged(string, uint64)              {}
func (*watcher) Expired(string, uint64)             {}

// Lost implements fleet.Watcher.
func (w *watcher) Lost() {
	if w.turn(true) {
		w.p.logger.Warn("fleet unreachable; this gateway continues alone and retries periodically", "redis", w.where)
	}
}

// Reset implements fleet.Watcher.
func (w *watcher) Reset() {
	if w.turn(false) {
		w.p.logger.Info("fleet reachable again; entries in memory are checked before use", "redis", w.where)
	}
}

// Recovered implements fleet.Watcher.
func (w *watcher) Recovered() {
	if w.turn(false) {
		w.p.logger.Info("fleet reachable again", "redis", w.where)
	}
}

// turn records whether the fleet is lost, and reports whether that has changed.
func (w *watcher) turn(lost bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	news := w.lost != lost
	w.lost = lost
	return news
}
