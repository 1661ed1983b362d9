package fleetclient_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/fleetclient"
)

// A writeless is a Tier that answers reads, but fails writes while refuses is
// set. It records the writes that it received.
type writeless struct {
	fleet.Tier

	mu      sync.Mutex
	refuses bool
	holds   chan struct{} // if not nil, writes wait for it to be closed, and succeed
	asked   []string
}

func (w *writeless) refuse(refuses bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuses = refuses
}

func (w *writeless) note(what string) error {
	w.mu.Lock()
	w.asked = append(w.asked, what)
	refuses, holds := w.refuses, w.holds
	w.mu.Unlock()
	if holds != nil {
		<-holds
	}
	if refuses {
		return &fleet.UnavailableError{Op: "write", Err: errors.New("refused")}
	}
	return nil
}

// writes returns the writes since the last call.
func (w *writeless) writes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.asked = nil }()
	return w.asked
}

func (w *writeless) Write(ctx context.Context, k fleet.Key, change fleet.Write) (uint64, error) {
	what := "remove "
	switch {
	case change.Entry != nil:
		what = "set "
	case change.Expire:
		what = "expire "
	}
	if err := w.note(what + k.Name); err != nil {
		return 0, err
	}
	return w.Tier.Write(ctx, k, change)
}

func (w *writeless) InvalidateTags(ctx context.Context, namespace string, tags []string, keep time.Duration) (uint64, error) {
	if err := w.note("tags " + strings.Join(tags, ",")); err != nil {
		return 0, err
	}
	return w.Tier.InvalidateTags(ctx, namespace, tags, keep)
}

func (w *writeless) ExpireTags(ctx context.Context, namespace string, tags []string, keep time.Duration) (uint64, error) {
	if err := w.note("expire tags " + strings.Join(tags, ",")); err != nil {
		return 0, err
	}
	return w.Tier.ExpireTags(ctx, namespace, tags, keep)
}

// A keeper is a Client on a writeless Tier, with the calls of its hook.
type keeper struct {
	*fleetclient.Client
	tier *writeless
	told []fleetclient.Pending // hooks run one at a time, see Hooks
}

func newKeeper(t *testing.T, m fleet.Tier, most int) *keeper {
	t.Helper()
	k := &keeper{tier: &writeless{Tier: m}}
	var err error
	k.Client, err = fleetclient.New(fleetclient.Options{
		Tier: k.tier, Namespace: "n", Lease: lease, Keep: time.Hour, Codec: "test", MaxPending: most,
		Hooks: fleetclient.Hooks{Pending: func(p fleetclient.Pending) { k.told = append(k.told, p) }},
	})
	if err != nil {
		t.Fatalf("New = %v; want nil", err)
	}
	return k
}

// stock puts entries of three keys, one of them tagged, into the engine.
func stock(t *testing.T, m fleet.Tier) {
	t.Helper()
	for name, tags := range map[string][]string{"k": nil, "other": nil, "tagged": {"t", "u"}} {
		if _, err := m.Write(t.Context(), fleet.Key{Namespace: "n", Name: name}, fleet.Write{Entry: entry("old", 0, tags...)}); err != nil {
			t.Fatalf("Write = %v; want nil", err)
		}
	}
}

// gets returns what Ask yields for a key: its text, "lease", or "alone".
func (k *keeper) gets(t *testing.T, name string) string {
	t.Helper()
	s := k.Subscribe(name)
	defer s.Close()
	a, err := s.Ask(t.Context(), fleet.Ask{})
	switch {
	case errors.Is(err, fleet.ErrUnavailable):
		return "alone"
	case err != nil:
		t.Fatalf("Ask = %v", err)
	case a.Value != nil:
		return string(a.Value.Data)
	case a.Grant == fleet.GrantLease:
		s.Hold(a.Fence, nil).GiveUp(fleet.Outcome{})
		return "lease"
	}
	return a.Grant.String()
}

func wants[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v; want %v", what, got, want)
	}
}

// T12: while an invalidation is unacknowledged, no answer of the engine that it
// affects is used, and all others are. The invalidation is sent before the next
// call.
func TestT12_WhatIsPendingIsRejectedAndNothingElse(t *testing.T) {
	for what, c := range map[string]struct {
		do                  func(k *keeper, ctx context.Context) error
		k, tagged, other    string // while the invalidation is pending
		k2, tagged2, other2 string
		sent                string
	}{
		"a key": {func(k *keeper, ctx context.Context) error { _, err := k.Write(ctx, "k", fleet.Write{}); return err }, "alone", "old", "old", "lease", "old", "old", "remove k"},
		"expired": {func(k *keeper, ctx context.Context) error {
			_, err := k.Write(ctx, "k", fleet.Write{Expire: true})
			return err
		}, "alone", "old", "old", "old", "old", "old", "expire k"},
		"set": {func(k *keeper, ctx context.Context) error {
			_, err := k.Write(ctx, "k", fleet.Write{Entry: entry("new", 0)})
			return err
		}, "alone", "old", "old", "lease", "old", "old", "remove k"},
		"a tag":              {func(k *keeper, ctx context.Context) error { return k.InvalidateTags(ctx, "u") }, "old", "lease", "old", "old", "lease", "old", "tags u"},
		"everything":         {func(k *keeper, ctx context.Context) error { return k.InvalidateTags(ctx, "") }, "alone", "alone", "alone", "lease", "lease", "lease", "tags "},
		"a tag expired":      {func(k *keeper, ctx context.Context) error { return k.ExpireTags(ctx, "u") }, "old", "lease", "old", "old", "old", "old", "expire tags u"},
		"everything expired": {func(k *keeper, ctx context.Context) error { return k.ExpireTags(ctx, "") }, "alone", "alone", "alone", "old", "old", "old", "expire tags "},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := fleet.NewMemory(fleet.MemoryOptions{})
				stock(t, m)
				k := newKeeper(t, m, 0)
				k.tier.refuse(true)
				err := c.do(k, t.Context())
				var pending *fleet.PendingError
				if !errors.As(err, &pending) || !errors.Is(err, fleet.ErrUnavailable) || pending.Pending != 1 {
					t.Errorf("error = %v; want a PendingError of 1", err)
				}
				k.tier.writes()
				wants(t, "pending", []string{k.gets(t, "k"), k.gets(t, "tagged"), k.gets(t, "other")}, []string{c.k, c.tagged, c.other})
				if s := k.Stats(); s.Pending != 1 || s.Queued != 1 || s.Replayed != 0 || s.Blocked != strings.HasPrefix(what, "everything") {
					t.Errorf("Stats = %+v; want 1 pending", s)
				}
				k.tier.refuse(false)
				k.tier.writes()
				time.Sleep(4 * time.Second) // no calls in this time
				wants(t, "sent", k.tier.writes(), []string{c.sent})
				wants(t, "afterwards", []string{k.gets(t, "k"), k.gets(t, "tagged"), k.gets(t, "other")}, []string{c.k2, c.tagged2, c.other2})
				if s := k.Stats(); s.Pending != 0 || s.Queued != 1 || s.Replayed != 1 || s.Blocked {
					t.Errorf("Stats = %+v; want none pending", s)
				}
				if len(k.told) != 2 || k.told[0].Count != 1 || k.told[0].Err == nil || k.told[1].Count != 0 {
					t.Errorf("hook calls: %+v; want one pending, then none", k.told)
				}
				wants(t, "Close", k.Close(t.Context()), nil)
			})
		})
	}
}

// T12: a call for the key sends the invalidation at once, however far off the
// next attempt is.
func TestT12_AQuestionSendsWhatIsPendingOfItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		stock(t, m)
		k := newKeeper(t, m, 0)
		k.tier.refuse(true)
		_, _ = k.Write(t.Context(), "k", fleet.Write{})
		_ = k.InvalidateTags(t.Context(), "t")
		k.tier.refuse(false)
		k.tier.writes()
		wants(t, "k", k.gets(t, "k"), "lease")
		wants(t, "tagged", k.gets(t, "tagged"), "lease")
		wants(t, "sent", k.tier.writes(), []string{"remove k", "tags t"})
		wants(t, "pending", k.Stats().Pending, 0)
		wants(t, "Close", k.Close(t.Context()), nil)
	})
}

// T12: a pending invalidation of a key is sent before the instance's own writes
// of the key. A failed write is repeated as an invalidation, never as a write.
func TestT12_PendingGoesBeforeOwnWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		k := newKeeper(t, m, 0)
		k.tier.refuse(true)
		_, _ = k.Write(t.Context(), "k", fleet.Write{Expire: true})
		_, _ = k.Write(t.Context(), "k", fleet.Write{Entry: entry("one", 0)}) // together, an Expire and a Set become an Invalidate
		k.tier.refuse(false)
		k.tier.writes()
		if _, err := k.Write(t.Context(), "k", fleet.Write{Entry: entry("two", 0)}); err != nil {
			t.Errorf("Write = %v; want nil", err)
		}
		wants(t, "sent", k.tier.writes(), []string{"remove k", "set k"})
		wants(t, "k", k.gets(t, "k"), "two")
		k.tier.refuse(true)
		_ = k.InvalidateTags(t.Context(), "")
		k.tier.refuse(false)
		k.tier.writes()
		if _, err := k.Write(t.Context(), "k", fleet.Write{Entry: entry("three", k.TagSeq())}); err != nil {
			t.Errorf("Write = %v; want nil", err)
		}
		wants(t, "sent", k.tier.writes(), []string{"tags ", "set k"})
		wants(t, "Close", k.Close(t.Context()), nil)
	})
}

// T12: an acknowledgement covers only requests made before the attempt was sent.
func TestT12_AnAttemptUnderWayDoesNotCountForWhatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		k := newKeeper(t, m, 0)
		k.tier.refuse(true)
		_, _ = k.Write(t.Context(), "k", fleet.Write{})
		k.tier.refuse(false)
		hold := make(chan struct{})
		k.tier.mu.Lock()
		k.tier.holds = hold
		k.tier.mu.Unlock()
		time.Sleep(time.Second) // an attempt is in flight
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := k.Write(ctx, "k", fleet.Write{}) // requests it again
		if !errors.Is(err, fleet.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("Write = %v; want pending, because its context has ended", err)
		}
		k.tier.writes()
		close(hold)
		time.Sleep(5 * time.Second)
		wants(t, "sent again", k.tier.writes(), []string{"remove k"})
		wants(t, "pending", k.Stats().Pending, 0)
		wants(t, "Close", k.Close(t.Context()), nil)
	})
}

// T12: an answer read before a failed invalidation is overtaken.
func TestT12_AnAnswerFromBeforeIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		stock(t, m)
		k := newKeeper(t, m, 0)
		s, o := k.Subscribe("k"), k.Subscribe("other")
		a, b := ask(t, s, fleet.Ask{}, fleet.GrantFresh, "old"), ask(t, o, fleet.Ask{}, fleet.GrantFresh, "old")
		l := k.Subscribe("new")
		g := ask(t, l, fleet.Ask{}, fleet.GrantLease, "")
		lease := l.Hold(g.Fence, nil)
		k.tier.refuse(true)
		_, _ = k.Write(t.Context(), "k", fleet.Write{})
		_, _ = k.Write(t.Context(), "new", fleet.Write{})
		wants(t, "overtaken", []bool{s.Overtaken(a.Entry.Fence), o.Overtaken(b.Entry.Fence)}, []bool{true, false})
		settles(t, lease, stored("from before", 0), false)
		_ = k.InvalidateTags(t.Context(), "")
		wants(t, "overtaken by everything", o.Overtaken(b.Entry.Fence), true)
		k.tier.refuse(false)
		wants(t, "Close", k.Close(t.Context()), nil)
		if a, _ := m.Acquire(t.Context(), fleet.Key{Namespace: "n", Name: "new"}, fleet.Ask{Lease: lease2}); a.Entry != nil {
			t.Error("the engine took a value from before the invalidation")
		}
	})
}

const lease2 = time.Second

// T12: the queue is bounded. When it overflows, everything is invalidated, and no
// answer of the engine is used until that is acknowledged.
func TestT12_TooManyPendingBlockEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		stock(t, m)
		k := newKeeper(t, m, 1<<10)
		k.tier.refuse(true)
		for range 100 { // the same one counts once
			_, _ = k.Write(t.Context(), "k", fleet.Write{})
		}
		wants(t, "pending", k.Stats().Pending, 1)
		wants(t, "another key", k.gets(t, "other"), "old")
		for i := range 20 {
			_, _ = k.Write(t.Context(), fmt.Sprint("many", i), fleet.Write{})
		}
		if s := k.Stats(); s.Pending != 1 || !s.Blocked || s.Overflows != 1 {
			t.Errorf("Stats = %+v; want one invalidation of everything", s)
		}
		wants(t, "another key", k.gets(t, "other"), "alone")
		k.tier.refuse(false)
		time.Sleep(4 * time.Second)
		wants(t, "afterwards", []string{k.gets(t, "k"), k.gets(t, "other"), k.gets(t, "tagged")}, []string{"lease", "lease", "lease"})
		if s := k.Stats(); s.Pending != 0 || s.Blocked {
			t.Errorf("Stats = %+v; want none pending", s)
		}
		wants(t, "Close", k.Close(t.Context()), nil)
	})
}

// T12: a write that does not return, for any reason, is pending.
func TestT12_AWriteThatDoesNotReturnIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		stock(t, m)
		k := newKeeper(t, m, 0)
		for range 2 { // the first round sends; the second finds one pending and waits for it
			k.tier.refuse(true)
			func() {
				defer func() { _ = recover() }()
				_, _ = k.Write(rude{t.Context()}, "k", fleet.Write{})
			}()
			func() {
				defer func() { _ = recover() }()
				_ = k.InvalidateTags(rude{t.Context()}, "t")
			}()
			wants(t, "pending", k.Stats().Pending, 2)
		}
		k.tier.refuse(false)
		long := strings.Repeat("x", fleet.MaxName+1)
		if _, err := k.Write(t.Context(), long, fleet.Write{}); err == nil || errors.Is(err, fleet.ErrUnavailable) {
			t.Errorf("Write of a key that is too long = %v; want an error that is not ErrUnavailable", err)
		}
		if err := k.InvalidateTags(t.Context(), "u", long); err == nil || errors.Is(err, fleet.ErrUnavailable) {
			t.Errorf("InvalidateTags of a tag that is too long = %v; want an error that is not ErrUnavailable", err)
		}
		if w := k.tier.writes(); !slices.Contains(w, "tags u") {
			t.Errorf("writes = %q; want the other tag as well", w)
		}
		wants(t, "Close", k.Close(t.Context()), nil)
	})
}

// T12, F6: the owner's hook may panic or exit, on the goroutine of a caller or of the
// Client. The caller gets its error, and what is pending is sent.
func TestT12_AHookThatDoesNotReturn(t *testing.T) {
	for name, fault := range map[string]func(){"panic": func() { panic("rude") }, "goexit": runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) {
			tier := &writeless{Tier: fleet.NewMemory(fleet.MemoryOptions{})}
			told := 0
			c, err := fleetclient.New(fleetclient.Options{
				Tier: tier, Namespace: "n", Lease: lease, Keep: time.Hour, Codec: "test",
				Hooks: fleetclient.Hooks{Pending: func(fleetclient.Pending) { told++; fault() }},
			})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				tier.refuse(true)
				done := make(chan error, 1)
				go func() {
					defer close(done)
					_, err := c.Write(t.Context(), "k", fleet.Write{})
					done <- err
				}()
				var pending *fleet.PendingError
				if err := <-done; !errors.As(err, &pending) || pending.Pending != 1 {
					t.Errorf("%s: Write = %v; want a PendingError of 1", name, err)
				}
				tier.refuse(false)
				time.Sleep(4 * time.Second)
				wants(t, name+": pending", c.Stats().Pending, 0)
			}
			wants(t, name+": calls of the hook", told, 4)
			wants(t, name+": Close", c.Close(t.Context()), nil)
		})
	}
}

// A rude context panics in Err.
type rude struct{ context.Context }

func (rude) Done() <-chan struct{} { panic("rude") }
func (rude) Err() error            { panic("rude") }

// T12: Close sends pending invalidations one last time, and reports those that
// are lost.
func TestT12_CloseSendsWhatIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		stock(t, m)
		a, b := newKeeper(t, m, 0), newKeeper(t, m, 0)
		for _, k := range []*keeper{a, b} {
			k.tier.refuse(true)
			_, _ = k.Write(t.Context(), "k", fleet.Write{})
		}
		var lost *fleet.PendingError
		if err := a.Close(t.Context()); !errors.As(err, &lost) || lost.Pending != 1 {
			t.Errorf("Close = %v; want a PendingError of 1", err)
		}
		wants(t, "another instance", b.gets(t, "other"), "old")
		b.tier.refuse(false)
		wants(t, "Close", b.Close(t.Context()), nil)
		wants(t, "sent", slices.Contains(b.tier.writes(), "remove k"), true)
		time.Sleep(time.Minute) // a late attempt would show
	})
}

// T12: a Reset sends pending invalidations before the next attempt is due.
func TestT12_ResetSendsWhatIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := instances(t, 2)
		in[1].load("old")
		in[0].link.Cut()
		for range 2 { // cut off twice
			_, _ = in[0].Write(t.Context(), "k", fleet.Write{})
			time.Sleep(time.Minute)
			in[0].link.Mend()
			synctest.Wait()
			wants(t, "pending", in[0].Stats().Pending, 0)
			in[0].link.Cut()
		}
		in[0].link.Mend()
		s := in[1].Subscribe("k")
		defer s.Close()
		ask(t, s, fleet.Ask{}, fleet.GrantLease, "")
	})
}
