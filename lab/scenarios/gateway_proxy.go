package scenarios

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/weir-go/weir/app/proxy"
	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/lab/scenario"
	"github.com/weir-go/weir/weirhttp"
)

// A proxySetup is a configuration file of weir proxy, without its listener.
type proxySetup struct{ Config string }

// proxyService runs weir proxy as the command does, with the command's listener:
// HTTP/1.1, HTTP/2 without TLS, timeouts for request headers. Control returns its
// address.
func proxyService(ctx context.Context, o scenario.Options) (*scenario.Service, error) {
	var set proxySetup
	if err := o.Decode(&set); err != nil {
		return nil, err
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	file, remove, err := configFile(fmt.Sprintf("listen:\n  - address: %s\n    h2c: true\n%s", address, set.Config))
	if err != nil {
		return nil, err
	}
	p := new(proxyCounter)
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- proxy.Run(ctx, proxy.Options{
			Load: func() (proxy.Settings, error) {
				c, err := config.Load(config.Source{File: file})
				if err != nil {
					return proxy.Settings{}, err
				}
				return proxy.Configure(c)
			},
			Source: file, Stdout: io.Discard, Stderr: io.Discard, New: p.open,
		})
	}()
	if err := connects(ctx, address, ended); err != nil {
		stop()
		remove()
		return nil, err
	}
	return &scenario.Service{
		Handler: http.NotFoundHandler(), // the proxy has its own listener
		Control: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, address) //nolint:errcheck // the lab has left
		}),
		Reset:  func(context.Context) error { p.reset(); return nil },
		Values: p.values,
		Close:  func() { stop(); remove() }, // without draining: the process ends anyway
	}, nil
}

// freeAddress returns an unused loopback address.
func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// configFile writes text into a file of a new folder, which remove removes.
func configFile(text string) (name string, remove func(), err error) {
	folder, err := os.MkdirTemp("", "weir-lab-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(folder) } //nolint:errcheck // a temporary folder
	name = filepath.Join(folder, "weir.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		remove()
		return "", nil, err
	}
	return name, remove, nil
}

// connects returns once address accepts connections. If the proxy ends first, it
// returns the proxy's error.
func connects(ctx context.Context, address string, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if c, err := new(net.Dialer).DialContext(ctx, "tcp", address); err == nil {
			return c.Close()
		}
		select {
		case err := <-ended:
			return fmt.Errorf("weir proxy ended: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Names of weir proxy's counts of slow clients and of cost.
const (
	cutBlocked = "cut, blocked"
	cutSlow    = "cut, below the minimum rate"
	readAhead  = "bodies read ahead"
	unitsSpent = "units spent"
)

// A proxyCounter holds the counts of a proxy's gateway since the last reset.
type proxyCounter struct {
	mu   sync.Mutex
	g    *gateway.Gateway // guarded by mu
	base weirhttp.Stats   // guarded by mu; at the last reset
}

// open is for proxy.Options.New.
func (p *proxyCounter) open(c gateway.Config) (proxy.Gateway, error) {
	g, err := gateway.New(c)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.g = g
	return g, nil
}

// ofLocked adds up all routes. p.mu must be held.
func (p *proxyCounter) ofLocked() (sum weirhttp.Stats) {
	for _, r := range p.g.Stats().Routes {
		sum.Refused += r.Refused
		sum.Hits += r.Hits
		sum.Joined += r.Joined
		sum.Cost.Spent += r.Cost.Spent
		sum.Slow.ReadAhead += r.Slow.ReadAhead
		sum.Slow.CutSending += r.Slow.CutSending
		sum.Slow.CutReading += r.Slow.CutReading
		sum.Slow.CutBlocked += r.Slow.CutBlocked
	}
	return sum
}

func (p *proxyCounter) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.base = p.ofLocked()
}

func (p *proxyCounter) values() map[string]float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, was := p.ofLocked(), p.base
	return map[string]float64{
		hits:         float64(now.Hits - was.Hits),
		joins:        float64(now.Joined - was.Joined),
		unitsSpent:   float64(now.Cost.Spent - was.Cost.Spent),
		callsRefused: float64(now.Refused - was.Refused),
		readAhead:    float64(now.Slow.ReadAhead - was.Slow.ReadAhead),
		cutBlocked:   float64(now.Slow.CutBlocked - was.Slow.CutBlocked),
		cutSlow:      float64(now.Slow.CutSending + now.Slow.CutReading - was.Slow.CutSending - was.Slow.CutReading),
	}
}
