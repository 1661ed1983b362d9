package scenarios

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// A faultyLink is what lies between instances and their engine: toxiproxy, in
// this process.
type faultyLink struct{ proxy *toxiproxy.Proxy }

// newFaultyLink returns a link to upstream, host:port, that does nothing yet.
func newFaultyLink(upstream string) (*faultyLink, error) {
	s := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(s, "engine", "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		return nil, fmt.Errorf("scenarios: start toxiproxy: %w", err)
	}
	return &faultyLink{p}, nil
}

// addr is where the link is entered.
func (f *faultyLink) addr() string { return f.proxy.Listen }

// stop ends the link and its connections.
func (f *faultyLink) stop() error {
	f.proxy.Stop()
	return nil
}

// delay holds back what the engine says.
func (f *faultyLink) delay(d time.Duration) error {
	return f.add(fmt.Sprintf(`{"name": "fault", "type": "latency", "stream": "downstream", "attributes": {"latency": %d, "jitter": %d}}`,
		d.Milliseconds(), d.Milliseconds()/4))
}

// reset has each connection reset as soon as the engine says something.
func (f *faultyLink) reset() error {
	return f.add(`{"name": "fault", "type": "reset_peer", "stream": "downstream", "attributes": {"timeout": 0}}`)
}

func (f *faultyLink) add(toxic string) error {
	if _, err := f.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		return fmt.Errorf("scenarios: toxiproxy: %w", err)
	}
	return nil
}

// heal ends the fault.
func (f *faultyLink) heal(ctx context.Context) error {
	if err := f.proxy.Toxics.RemoveToxic(ctx, "fault"); err != nil {
		return fmt.Errorf("scenarios: toxiproxy: %w", errors.Join(err, context.Cause(ctx)))
	}
	return nil
}
