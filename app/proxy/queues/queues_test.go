package queues_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/app/proxy/queues"
	"github.com/weir-go/weir/jobs"
)

// A keeper answers each call, or hangs.
type keeper struct {
	mu    sync.Mutex
	asked int   // guarded by mu
	hangs bool  // guarded by mu
	err   error // guarded by mu
}

func (k *keeper) Queues(ctx context.Context) ([]jobs.QueueStatus, error) {
	k.mu.Lock()
	k.asked++
	asked, hangs, err := k.asked, k.hangs, k.err
	k.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []jobs.QueueStatus{{Queue: "b", Waiting: asked}, {Queue: "a"}}, err
}

// now makes further calls hang, or return err.
func (k *keeper) now(hangs bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hangs, k.err = hangs, err
}

func (k *keeper) times() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

// However often the queues are requested, their keeper is called every five
// seconds, and callers do not wait for it.
func TestC6_QueuesAreLookedAtInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		var log bytes.Buffer
		b := queues.New(k, slog.New(slog.NewTextHandler(&log, nil)))
		synctest.Wait()
		for range 1000 {
			if q := b.Queues(); len(q) != 2 || q[0].Queue != "a" || q[1].Waiting != 1 {
				t.Fatalf("Queues = %+v; want a, and b as of the first query", q)
			}
		}
		time.Sleep(11 * time.Second)
		if q := b.Queues(); k.times() != 3 || q[1].Waiting != 3 {
			t.Errorf("after 11 s the keeper was called %d times, Queues = %+v; want 3", k.times(), q)
		}

		k.now(true, nil)
		time.Sleep(5 * time.Second)
		before := time.Now()
		if q := b.Queues(); len(q) != 2 || !time.Now().Equal(before) {
			t.Errorf("Queues while the keeper hangs = %+v after %v; want the earlier result, without a wait", q, time.Since(before))
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait() // the query that is due now has logged
		if q := b.Queues(); q != nil {
			t.Errorf("Queues after two minutes without a result = %+v; want none", q)
		}
		if n := strings.Count(log.String(), "cannot read the status"); n < 1 || n > 3 {
			t.Errorf("the log has %d lines about it; want one per minute:\n%s", n, log.String())
		}
		before = time.Now()
		b.Close()
		if took := time.Since(before); took != 0 {
			t.Errorf("Close took %v; want 0, though the keeper hangs", took)
		}
	})
}

func TestBoardGoesOnAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{err: errors.New("away")}
		b := queues.New(k, slog.New(slog.DiscardHandler))
		defer b.Close()
		synctest.Wait()
		if q := b.Queues(); q != nil {
			t.Errorf("Queues = %+v; want none", q)
		}
		k.now(false, nil)
		time.Sleep(6 * time.Second)
		if q := b.Queues(); len(q) != 2 {
			t.Errorf("Queues = %+v; want two", q)
		}
	})
}

func TestBoardWithoutJobs(t *testing.T) {
	b := queues.New(nil, slog.New(slog.DiscardHandler))
	if q := b.Queues(); q != nil {
		t.Errorf("Queues = %+v; want none", q)
	}
	b.Close()
	b.Close()
}
