// Package link is a faulty link between programs and their engine: toxiproxy, in this
// process, which delays, resets or swallows the engine's responses.
package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// A Link has at most one fault at a time.
type Link struct{ proxy *toxiproxy.Proxy }

// New returns a Link to upstream, on a free loopback port, without a fault.
func New(upstream string) (*Link, error) {
	s := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(s, "engine", "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		return nil, fmt.Errorf("link: start toxiproxy: %w", err)
	}
	return &Link{p}, nil
}

// Addr returns the link's address for clients.
func (l *Link) Addr() string { return l.proxy.Listen }

// Stop ends the link and its connections.
func (l *Link) Stop() error {
	l.proxy.Stop()
	return nil
}

// Delay delays each chunk of the engine's responses by d, plus or minus jitter.
func (l *Link) Delay(d, jitter time.Duration) error {
	return l.add(fmt.Sprintf(`{"name": "fault", "type": "latency", "stream": "downstream", "attributes": {"latency": %d, "jitter": %d}}`,
		d.Milliseconds(), jitter.Milliseconds()))
}

// Reset resets each connection as soon as the engine sends data.
func (l *Link) Reset() error {
	return l.add(`{"name": "fault", "type": "reset_peer", "stream": "downstream", "attributes": {"timeout": 0}}`)
}

// Cut swallows the engine's responses: connections stay open. Heal closes them.
func (l *Link) Cut() error {
	return l.add(`{"name": "fault", "type": "timeout", "stream": "downstream", "attributes": {"timeout": 0}}`)
}

func (l *Link) add(toxic string) error {
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		return fmt.Errorf("link: toxiproxy: %w", err)
	}
	return nil
}

// Heal ends the fault.
func (l *Link) Heal(ctx context.Context) error {
	if err := l.proxy.Toxics.RemoveToxic(ctx, "fault"); err != nil {
		return fmt.Errorf("link: toxiproxy: %w", errors.Join(err, context.Cause(ctx)))
	}
	return nil
}
