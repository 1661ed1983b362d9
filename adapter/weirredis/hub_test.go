package weirredis

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/fleet"
)

// notes is a Watcher that records its calls.
type notes struct {
	mu   sync.Mutex
	told []string
	busy atomic.Bool
	t    *testing.T
}

func (n *notes) note(format string, args ...any) {
	if n.busy.Swap(true) {
		n.t.Error("two calls at once")
	}
	defer n.busy.Store(false)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, fmt.Sprintf(format, args...))
}

func (n *notes) Changed(name string, fence uint64, removed bool) {
	n.note("changed %s %d %v", name, fence, removed)
}
func (n *notes) Pushed(name string, e fleet.Entry, _ uint64) {
	n.note("pushed %s %d %s", name, e.Fence, e.Data)
}
func (n *notes) Released(name string)           { n.note("released %s", name) }
func (n *notes) Expired(tag string, seq uint64) { n.note("expired %s %d", tag, seq) }
func (n *notes) Tagged(tag string, seq uint64)  { n.note("tagged %s %d", tag, seq) }
func (n *notes) Lost()                          { n.note("lost") }
func (n *notes) Recovered()                     { n.note("reset") }
func (n *notes) Reset()                         { n.note("reset") }

func (n *notes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	told := n.told
	n.told = nil
	return told
}

// testHub returns a hub whose feeds the test turns up and down.
func testHub(addresses ...string) (*hub, []*feed) {
	h := newHub(Options{Prefix: "weir"})
	var feeds []*feed
	for _, a := range addresses {
		f := &feed{h: h, address: a}
		h.feeds[a] = f
		feeds = append(feeds, f)
	}
	h.known = true
	return h, feeds
}

// Lost is called once, when the first feed breaks, and Reset when the last one is up.
// Reset is also called for each feed that comes up again while none is missing.
func TestHubTellsLostAndReset(t *testing.T) {
	h, f := testHub("a", "b")
	n := &notes{t: t}
	h.watch("ns", n)
	other := &feed{h: h, address: "a"} // not the current feed of its address
	steps := []struct {
		name string
		do   func()
		want []string
	}{
		{"watch before any feed is up", func() {}, []string{"lost"}},
		{"one is up", func() { h.up(f[0]) }, nil},
		{"both are up", func() { h.up(f[1]) }, []string{"reset"}},
		{"one was flushed", func() { h.up(f[1]) }, []string{"reset"}},
		{"one breaks", func() { h.down(f[0]) }, []string{"lost"}},
		{"and again", func() { h.down(f[0]) }, nil},
		{"the other breaks, too", func() { h.down(f[1]) }, nil},
		{"one is back", func() { h.up(f[0]) }, nil},
		{"the other is back", func() { h.up(f[1]) }, []string{"reset"}},
		{"one that is not wanted", func() { h.up(other); h.down(other) }, nil},
	}
	for _, step := range steps {
		step.do()
		if got := n.take(); !slices.Equal(got, step.want) {
			t.Errorf("%s: got %q; want %q", step.name, got, step.want)
		}
	}
	select {
	case <-h.ready:
	default:
		t.Error("ready is open; want closed after all feeds were up")
	}
}

// Calls come one after another, from any number of feeds, and none comes after stop.
func TestHubStops(t *testing.T) {
	h, f := testHub("a", "b", "c")
	n := &notes{t: t}
	stop := h.watch("ns", n)
	var feeds sync.WaitGroup
	started := make(chan struct{}, len(f))
	for range f {
		feeds.Go(func() {
			for i := range 2000 {
				h.pushed(fmt.Sprintf("weir:p:{ns/k}:c:%d", i))
				if i == 100 {
					started <- struct{}{}
				}
			}
		})
	}
	for range f {
		<-started
	}
	stop()
	before := len(n.take())
	feeds.Wait()
	h.up(f[0])
	if after := n.take(); before == 0 || len(after) > 0 {
		t.Errorf("%d calls before stop, %d after; want some, and none", before, len(after))
	}
	if len(h.watchers) != 0 {
		t.Errorf("%d namespaces are watched; want none", len(h.watchers))
	}
}

// A push that is not weir's, or of an unknown namespace, reaches no Watcher.
func TestHubIgnoresOthers(t *testing.T) {
	h, f := testHub("a")
	h.up(f[0])
	n := &notes{t: t}
	stop := h.watch("ns", n)
	defer stop()
	for _, name := range []string{"weir:p:", "weir:p:{ns/k}", "weir:p:{ns2/k}:c:1", "weir:p:{ns/k}:x:1", "{ns/k", "weir:p:{|ns}:c:1"} {
		h.pushed(name)
	}
	if got := n.take(); len(got) != 0 {
		t.Errorf("got %q; want nothing", got)
	}
	h.pushed("weir:p:{ns/a%20b}:l:5")
	if got := n.take(); !slices.Equal(got, []string{"released a b"}) {
		t.Errorf("got %q; want the release of %q", got, "a b")
	}
}

var _ fleet.Watcher = (*notes)(nil)

// A push in delivery when stop is called is not delivered afterwards.
func TestHubStopsWhileTelling(t *testing.T) {
	h, _ := testHub("a")
	first, second := &blocking{entered: make(chan struct{}), leave: make(chan struct{})}, &notes{t: t}
	stopFirst := h.watch("ns", first)
	stop := h.watch("ns", second)
	second.take()
	var feed sync.WaitGroup
	feed.Go(func() { h.pushed("weir:p:{ns/k}:l:1") })
	<-first.entered // the push still has to reach both Watchers
	stop()
	close(first.leave)
	feed.Wait()
	if got := second.take(); len(got) != 0 {
		t.Errorf("got %q after stop; want nothing", got)
	}
	stopFirst()
}

// blocking is a Watcher that blocks in Released.
type blocking struct {
	notes
	entered, leave chan struct{}
}

func (b *blocking) Released(string) {
	close(b.entered)
	<-b.leave
}
