package weirredis

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"
	"github.com/weir-go/weir/fleet"
)

// A hub passes pushes from the feeds, one for each master, to the Watchers.
type hub struct {
	o       Options
	ready   chan struct{} // closed when all feeds are up for the first time
	running sync.WaitGroup
	cancel  context.CancelFunc // nil until start

	// telling is held while the feeds' state changes and while Watchers are called, so
	// that Lost and Reset come in the order in which they happened:
	//
	//	A: a feed breaks: lost
	//	B: the feed is back: not lost any more
	//	B: sends Reset
	//	A: sends Lost, after which no Reset would ever come
	//
	// It is taken before mu.
	telling sync.Mutex
	feeds   map[string]*feed // guarded by telling; by address
	lost    bool             // guarded by telling: Lost was sent, and Reset must follow
	known   bool             // guarded by telling: feeds covers all masters
	once    bool             // guarded by telling: ready is closed

	mu       sync.Mutex
	watchers map[string][]*watcher // guarded by mu; by namespace; lists are never altered
}

// A watcher is a fleet.Watcher whose calls can be stopped.
type watcher struct {
	w fleet.Watcher

	mu      sync.Mutex // held during calls: they come from several feeds
	stopped bool       // guarded by mu
}

func (w *watcher) tell(call func(fleet.Watcher)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		call(w.w)
	}
}

func newHub(o Options) *hub {
	return &hub{
		o: o, ready: make(chan struct{}), lost: true,
		feeds: make(map[string]*feed), watchers: make(map[string][]*watcher),
	}
}

// start begins tracking, which lasts until ctx ends or stop is called.
func (h *hub) start(ctx context.Context, client rueidis.Client) {
	ctx, h.cancel = context.WithCancel(ctx)
	if h.o.Cluster {
		h.running.Go(func() { h.follow(ctx, client) })
		return
	}
	h.want(ctx, []string{""})
}

// stop ends the tracking and waits for its goroutines.
func (h *hub) stop() {
	if h.cancel != nil {
		h.cancel()
	}
	h.running.Wait()
}

// Watch is of fleet.Tier.
func (e *engine) Watch(namespace string, w fleet.Watcher) (stop func(), err error) {
	if err := checkNamespace(namespace); err != nil {
		return nil, err
	}
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return nil, &fleet.UnavailableError{Op: "watch", Err: errClosed}
	}
	return e.hub.watch(strings.Clone(namespace), w), nil
}

// watch adds a Watcher. If pushes may be missing at the moment, it gets Lost now and
// Reset later.
func (h *hub) watch(namespace string, fw fleet.Watcher) (stop func()) {
	h.telling.Lock()
	defer h.telling.Unlock()
	w := &watcher{w: fw}
	h.mu.Lock()
	h.watchers[namespace] = append(slices.Clip(h.watchers[namespace]), w)
	h.mu.Unlock()
	if h.lost {
		w.tell(fleet.Watcher.Lost)
	}
	return func() { h.unwatch(namespace, w) }
}

func (h *hub) unwatch(namespace string, w *watcher) {
	h.mu.Lock()
	left := slices.DeleteFunc(slices.Clone(h.watchers[namespace]), func(o *watcher) bool { return o == w })
	if h.watchers[namespace] = left; len(left) == 0 {
		delete(h.watchers, namespace)
	}
	h.mu.Unlock()
	w.mu.Lock() // waits for the call in progress
	defer w.mu.Unlock()
	w.stopped = true
}

// pushed calls the Watchers with the push that is encoded in the name of a key.
func (h *hub) pushed(name string) {
	p, ok := parsePush(strings.TrimPrefix(name, h.o.Prefix+":p:"))
	if !ok {
		return // not written by a script
	}
	h.mu.Lock()
	watchers := h.watchers[p.namespace]
	h.mu.Unlock()
	for _, w := range watchers {
		w.tell(p.tell)
	}
}

// tellAllLocked makes a call to all Watchers. h.telling must be held.
func (h *hub) tellAllLocked(call func(fleet.Watcher)) {
	h.mu.Lock()
	var all []*watcher
	for _, some := range h.watchers {
		all = append(all, some...)
	}
	h.mu.Unlock()
	for _, w := range all {
		w.tell(call)
	}
}

// up records that a feed has just come up: it may have missed pushes before.
func (h *hub) up(f *feed) {
	h.telling.Lock()
	defer h.telling.Unlock()
	if h.feeds[f.address] != f {
		return // not wanted any more
	}
	f.up = true
	h.owedLocked()
}

// down records that a feed has broken.
func (h *hub) down(f *feed) {
	h.telling.Lock()
	defer h.telling.Unlock()
	was := f.up
	f.up = false
	if h.feeds[f.address] == f && was && !h.lost {
		h.lost = true
		h.tellAllLocked(fleet.Watcher.Lost)
	}
}

// owedLocked sends Reset if all wanted feeds are up. h.telling must be held.
func (h *hub) owedLocked() {
	for _, f := range h.feeds {
		if !f.up {
			return
		}
	}
	if !h.known || len(h.feeds) == 0 {
		return
	}
	h.lost = false
	h.tellAllLocked(fleet.Watcher.Reset)
	if !h.once {
		h.once = true
		close(h.ready)
	}
}

// want starts and stops feeds, so that exactly these masters have one.
func (h *hub) want(ctx context.Context, addresses []string) {
	h.telling.Lock()
	defer h.telling.Unlock()
	gone := false
	for a, f := range h.feeds {
		if !slices.Contains(addresses, a) {
			f.cancel()
			delete(h.feeds, a)
			gone = true
		}
	}
	for _, a := range addresses {
		if h.feeds[a] == nil {
			h.feeds[a] = h.newFeedLocked(ctx, a)
		}
	}
	first := !h.known
	h.known = true
	if (gone || first) && h.lost {
		h.owedLocked()
	}
}
