package weirtest_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/weirtest"
)

// M3: the Recorder records loads, waits and events, and returns copies.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l weirtest.Loader[string, int]
		var r weirtest.Recorder
		l.On("a").Return(1).Fail(errDown)
		g := newGuard(t, weir.Source[string, int]{Load: l.Load}, weir.Options{
			Name: "prices", TTL: time.Minute, StaleIfError: time.Hour, Observer: &r,
		})

		l.Block()
		go g.Get(t.Context(), "a")
		first := l.Started(t, "a")
		if got := r.Loads(); len(got) != 1 || got[0].Ended || got[0].Guard != "prices" || got[0].Key != "a" {
			t.Errorf("Loads during the load = %+v; want one load of a by prices", got)
		}
		time.Sleep(time.Second)
		first.Release()
		l.Release()
		time.Sleep(2 * time.Minute)
		g.Get(t.Context(), "a")
		synctest.Wait()

		got := r.Loads()
		if len(got) != 2 || !got[0].Ended || got[0].End.Duration != time.Second || got[0].End.Err != nil || got[1].End.Err != errDown {
			t.Errorf("Loads = %+v; want one that took 1s, and one that failed with %v", got, errDown)
		}
		if w := r.Waits(); len(w) != 2 || w[0].Duration != time.Second || w[1].Err != errDown {
			t.Errorf("Waits = %+v; want one that took 1s, and one for a failed load", w)
		}
		if e := r.Events(weir.EventStaleOnError); len(e) != 1 || e[0].Err != errDown {
			t.Errorf("Events = %+v; want one, with %v", e, errDown)
		}
		if e := r.Events(weir.EventAbandoned, weir.EventTooHeavy); len(e) != 0 {
			t.Errorf("Events = %+v; want none", e)
		}

		got[0].Ended = false
		r.Events()[0].Err = nil
		r.Waits()[1].Err = nil
		if !r.Loads()[0].Ended || r.Events()[0].Err == nil || r.Waits()[1].Err == nil {
			t.Error("changing a returned slice changes the records; want copies")
		}
		r.Reset()
		if len(r.Loads())+len(r.Waits())+len(r.Events()) != 0 {
			t.Error("there are records left after Reset")
		}
	})
}

func TestRecorderKeepsAnEndWithoutAStart(t *testing.T) {
	var r weirtest.Recorder
	r.LoadEnd(t.Context(), weir.LoadInfo{Guard: "g"}, weir.LoadEnd{Err: errDown})
	if got := r.Loads(); len(got) != 1 || got[0].Guard != "g" || got[0].End.Err != errDown {
		t.Errorf("Loads = %+v; want the one that ended", got)
	}
}

func TestRecorderIsSafeForConcurrentUse(t *testing.T) {
	var a, b weirtest.Recorder
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			ctx := a.LoadStart(b.LoadStart(context.Background(), weir.LoadInfo{}), weir.LoadInfo{})
			a.LoadEnd(ctx, weir.LoadInfo{}, weir.LoadEnd{})
			b.LoadEnd(ctx, weir.LoadInfo{}, weir.LoadEnd{})
			a.Waited(ctx, weir.Wait{})
			a.Event(t.Context(), weir.Event{})
			a.Loads()
			a.Waits()
			a.Events()
		})
	}
	wg.Wait()
	for _, r := range []*weirtest.Recorder{&a, &b} {
		if n := len(r.Loads()); n != 50 {
			t.Errorf("%d loads; want 50", n)
		}
	}
}
