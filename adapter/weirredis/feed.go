package weirredis

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// A feed is the tracking connection to one master, or to the one that Sentinels
// name.
type feed struct {
	h       *hub
	address string // "": of the options
	cancel  context.CancelFunc
	up      bool // guarded by hub.telling

	// broken says that what came before may be missing: the connection has
	// ended, or all keys were flushed. Atomic, as it is set on rueidis' reading
	// goroutine, which must not wait.
	broken atomic.Bool
	look   chan struct{} // has room for one: broken was set
}

// newFeedLocked starts a feed. h.telling must be held.
func (h *hub) newFeedLocked(ctx context.Context, address string) *feed {
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{h: h, address: address, cancel: cancel, look: make(chan struct{}, 1)}
	h.running.Go(func() {
		defer cancel()
		f.run(ctx)
	})
	return f
}

// run keeps the feed up until ctx ends.
func (f *feed) run(ctx context.Context) {
	wait := minInterval
	for {
		if f.session(ctx) {
			wait = minInterval
		}
		f.h.down(f)
		if !sleep(ctx, wait) {
			return
		}
		wait = min(2*wait, f.h.o.PingInterval)
	}
}

// session is one client. It ends when a PING is not answered, or with ctx, and
// reports whether any was.
func (f *feed) session(ctx context.Context) (ok bool) {
	client, err := rueidis.NewClient(f.options())
	if err != nil {
		if client != nil {
			client.Close()
		}
		return false
	}
	defer client.Close()
	f.broken.Store(true) // what came before this session
	tick := time.NewTicker(f.h.o.PingInterval)
	defer tick.Stop()
	for {
		// Taken down before the PING: one that is set while it runs is of a
		// connection that ends just now, and is for the next round.
		broken := f.broken.Swap(false)
		if err := f.ping(ctx, client); err != nil {
			return ok
		}
		ok = true
		if broken {
			f.h.up(f)
		}
		select {
		case <-ctx.Done():
			return ok
		case <-tick.C:
		case <-f.look:
		}
	}
}

// ping asks for a sign of life. rueidis makes a new connection for it if the
// last has ended; tracking is part of making one.
func (f *feed) ping(ctx context.Context, client rueidis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, f.h.o.PingInterval)
	defer cancel()
	return client.Do(ctx, client.B().Ping().Build()).Error()
}

func (f *feed) options() rueidis.ClientOption {
	o := f.h.o.client()
	if f.address != "" {
		o.InitAddress, o.ForceSingleClient = []string{f.address}, true
	}
	o.ClientTrackingOptions = []string{"BCAST", "PREFIX", f.h.o.Prefix + ":p:"}
	o.OnInvalidations = f.pushed
	return o
}

// pushed is called on the goroutine that reads the connection. nil means that
// all keys were flushed, or that the connection has ended.
func (f *feed) pushed(names []rueidis.RedisMessage) {
	if names == nil {
		f.broken.Store(true)
		select {
		case f.look <- struct{}{}:
		default:
		}
		return
	}
	for i := range names {
		if name, err := names[i].ToString(); err == nil {
			f.h.pushed(name)
		}
	}
}
