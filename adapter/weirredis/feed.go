package weirredis

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// A feed is the tracking connection to one master, or to the master that the
// Sentinels name.
type feed struct {
	h       *hub
	address string // "": the addresses of the options
	cancel  context.CancelFunc
	up      bool // guarded by hub.telling

	// broken reports that earlier pushes may be missing, because the connection has
	// ended or all keys were flushed. Atomic, because it is set on rueidis' reading
	// goroutine, which must not block.
	broken atomic.Bool
	look   chan struct{} // buffer of one; signals that broken was set
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

// session runs one client. It ends when a PING fails or ctx ends, and reports whether
// any PING succeeded.
func (f *feed) session(ctx context.Context) (ok bool) {
	client, err := rueidis.NewClient(f.options())
	if err != nil {
		if client != nil {
			client.Close()
		}
		return false
	}
	defer client.Close()
	f.broken.Store(true) // pushes from before this session are missing
	tick := time.NewTicker(f.h.o.PingInterval)
	defer tick.Stop()
	for {
		// Cleared before the PING: if it is set during the PING, a connection has
		// just ended, and the next round handles it.
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

// ping sends a PING. rueidis creates a new connection for it if the last one has
// ended, and turns on tracking for each new connection.
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
