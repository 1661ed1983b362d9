package oncetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/once"
)

// A history is a random sequence of calls by gateways that end at any step of their Store.
type history struct {
	t        testing.TB
	rand     *rand.Rand
	b        Backend
	gateways []*gateway
	keys     map[string]*known
	log      strings.Builder
	failed   bool
}

// A gateway is a process with a Store.
type gateway struct {
	store  *crasher
	claims *once.Claims
}

// known is what is known of a key outside of the Store.
type known struct {
	ran    int    // calls that the origin may have seen since the key was last certainly free
	answer string // that a client has, "" for none
	done   bool   // a client or an operator knows that it has run
	unsure bool   // an operation that frees the key, or settles the call, may have happened or not
}

func newHistory(t testing.TB, seed uint64, b Backend) *history {
	h := &history{t: t, rand: rand.New(rand.NewPCG(seed, 45)), b: b, keys: map[string]*known{}}
	n := 1
	if b.Shared {
		n = 2
	}
	for range n {
		h.gateways = append(h.gateways, h.start())
	}
	return h
}

func (h *history) start() *gateway {
	c := &crasher{Store: h.b.Open(bytesBound, keysBound), left: 1 + h.rand.IntN(40), after: h.rand.IntN(2) == 0}
	return &gateway{c, once.NewClaims(c)}
}

func (h *history) note(format string, args ...any) { fmt.Fprintf(&h.log, format+"\n", args...) }

func (h *history) fail(format string, args ...any) {
	h.failed = true
	h.t.Errorf(format, args...)
}

// run reports whether all went well.
func (h *history) run() bool {
	for range 60 {
		i := h.rand.IntN(len(h.gateways))
		g := h.gateways[i]
		if h.act(i, g); h.failed {
			return false
		}
		if g.store.crashed() {
			h.note("%d: crash", i)
			if h.b.Gone != nil {
				h.b.Gone(g.store.Store)
			}
			h.gateways[i] = h.start()
		}
	}
	for _, g := range h.gateways {
		if h.b.Gone != nil {
			h.b.Gone(g.store.Store)
		}
	}
	return true
}

func (h *history) act(i int, g *gateway) {
	key := string(rune('a' + h.rand.IntN(6)))
	k := h.keys[key]
	if k == nil {
		k = new(known)
		h.keys[key] = k
	}
	if h.rand.IntN(8) == 0 {
		h.settle(g, key, k)
		return
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	e, err := g.claims.Begin(ctx, once.Call{
		ID: once.Sum(key), Fingerprint: once.Sum("f"), Credentials: once.Sum("c"), Principal: once.Sum(key),
		Route: "r", Name: "POST /", TTL: time.Hour, Reserve: 1000,
	})
	switch {
	case err != nil:
		h.note("%d %s: Begin: %v", i, key, err)
		if !g.store.crashed() {
			h.fail("%s: Begin = %v", key, err)
		}
	case e.Run == nil:
		h.told(i, key, k, e.Record)
	default:
		h.call(i, g, key, k, e.Run)
	}
}

func (h *history) told(i int, key string, k *known, r once.Record) {
	h.note("%d %s: gets %v %s", i, key, r.State, r.Body)
	switch {
	case k.ran == 0 && !k.unsure:
		h.fail("%s: %v, but it never ran", key, r.State)
	case r.State == once.Answered && k.answer != "" && k.answer != string(r.Body):
		h.fail("%s: the response is %s, and was %s", key, r.Body, k.answer)
	case r.State == once.Unknown && (k.answer != "" || k.done && !k.unsure):
		h.fail("%s: it is unknown, but a client knows how it ended", key)
	}
	switch r.State {
	case once.Answered:
		k.answer = string(r.Body)
	case once.Done:
		k.done = true
	}
}

// call makes a call.
func (h *history) call(i int, g *gateway, key string, k *known, run *once.Run) {
	defer run.End(nil)
	if k.answer != "" || k.done {
		h.fail("%s: it runs again, but a client knows how it ended", key)
	}
	if h.rand.IntN(6) == 0 {
		h.note("%d %s: refused by a limit", i, key)
		return
	}
	if err := run.Claim(h.t.Context()); err != nil {
		h.note("%d %s: Claim: %v", i, key, err)
		k.unsure = true
		if !g.store.crashed() {
			h.fail("%s: Claim = %v", key, err)
		}
		return
	}
	if k.ran > 0 && !k.unsure {
		h.fail("%s: it runs again", key)
	}
	*k = known{ran: 1}
	var err error
	switch what := h.rand.IntN(6); what {
	case 0:
		h.note("%d %s: freed", i, key)
		if err = run.Free(); err == nil {
			*k = known{}
		} else {
			k.unsure = true
		}
	case 1:
		h.note("%d %s: doubted", i, key)
		err = run.Doubt("no response")
	case 2:
		h.note("%d %s: killed while it runs", i, key)
		g.store.kill()
	case 3:
		h.note("%d %s: done", i, key)
		if err = run.Finish("too large"); err == nil {
			k.done = true
		}
	default:
		answer := fmt.Sprint("response ", h.rand.IntN(1000))
		h.note("%d %s: %s", i, key, answer)
		if err = run.Answer(once.Record{Status: 201, Body: []byte(answer)}); err == nil {
			k.answer = answer
		}
	}
	if err != nil {
		h.note("%d %s: %v", i, key, err)
	}
}

func (h *history) settle(g *gateway, key string, k *known) {
	done := h.rand.IntN(2) == 0
	err := g.claims.Settle(h.t.Context(), once.Sum(key), done)
	h.note("%s: settled as done %v: %v", key, done, err)
	switch {
	case errors.Is(err, once.ErrSettled):
	case err != nil:
		k.unsure = true
	case done:
		k.done = true
	default:
		if k.answer != "" {
			h.fail("%s: settled as not done, but a client has the response", key)
		}
		*k = known{}
	}
}

// errCrash is what the process gets for an operation with which it ends.
var errCrash = fmt.Errorf("%w: the process has ended", once.ErrStore)

// A crasher is a Store whose process ends with one of its operations: before the operation, or
// after it, so that only its result is lost.
type crasher struct {
	once.Store
	left  int
	after bool
}

func (c *crasher) crashed() bool { return c.left <= 0 }

func (c *crasher) kill() { c.left = 0 }

// step runs an operation, unless the process has ended.
func (c *crasher) step(do func() error) error {
	if c.crashed() {
		return errCrash
	}
	c.left--
	if !c.crashed() {
		return do()
	}
	if c.after {
		_ = do() // the process has ended: nothing receives its result
	}
	return errCrash
}

func (c *crasher) Get(ctx context.Context, id once.Digest) (s once.Stored, err error) {
	err = c.step(func() (err error) { s, err = c.Store.Get(ctx, id); return err })
	return s, err
}

func (c *crasher) Put(ctx context.Context, id once.Digest, r once.Record, old uint64) (v uint64, err error) {
	err = c.step(func() (err error) { v, err = c.Store.Put(ctx, id, r, old); return err })
	return v, err
}

func (c *crasher) Delete(ctx context.Context, id once.Digest, old uint64) error {
	return c.step(func() error { return c.Store.Delete(ctx, id, old) })
}

// Crash returns s for a process that ends with its operation left, counted from 1: before it
// reaches the store, or after it with only the result lost. All further operations fail.
func Crash(s once.Store, left int, after bool) once.Store {
	return &crasher{Store: s, left: left, after: after}
}
