package once

import (
	"runtime"
	"testing"
	"time"
)

// TestH45_ARewriteKeepsWhatTheNextWriteReplaces rewrites the file while other writes wait,
// and lets the machine crash at each step after that.
func TestH45_ARewriteKeepsWhatTheNextWriteReplaces(t *testing.T) {
	for step := 1; step <= 12; step++ {
		for seed := range uint64(6) {
			d := newFaultyDisk(seed)
			f := openFaulty(t, d)
			claim, answer := claimOf(Claimed), claimOf(Answered)
			paid, err := f.Put(t.Context(), Sum("paid"), claim, 0)
			freed, err2 := f.Put(t.Context(), Sum("freed"), claim, 0)
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			junk := uint64(0)
			for range 5 {
				if junk, err = f.Put(t.Context(), Sum("junk"), answer, junk); err != nil {
					t.Fatal(err)
				}
			}
			f.o.slack = 1 // the next write rewrites the file
			ended := make(chan error, 3)
			d.mu.Lock()
			d.hold = func() {
				go func() {
					_, err := f.Put(t.Context(), Sum("paid"), answer, paid)
					ended <- err
				}()
				go func() { ended <- f.Delete(t.Context(), Sum("freed"), freed) }()
				awaitPlaces(f, 2)
				d.mu.Lock()
				d.steps = step
				d.mu.Unlock()
			}
			d.mu.Unlock()
			_, _ = f.Put(t.Context(), Sum("junk"), answer, junk) // it may be durable or not
			err = <-ended
			sure := err == nil && <-ended == nil
			crashed := d.crashed()
			_ = f.Close(t.Context())
			d.restart(-1)
			f = openFaulty(t, d)
			got, err := f.Get(t.Context(), Sum("paid"))
			if err != nil || got.State != Claimed && got.State != Answered || sure && got.State != Answered {
				t.Errorf("crash at step %d (%v), seed %d: Get of the claim = %v, %v; want claimed or answered, which was written: %v", step, crashed, seed, got.State, err, sure)
			}
			got, err = f.Get(t.Context(), Sum("freed"))
			if err != nil || sure && got.Version != 0 {
				t.Errorf("crash at step %d, seed %d: Get of what was freed = %v, %v", step, seed, got.State, err)
			}
		}
	}
}

// TestH45_AWriteThatFailsChangesNothing lets the writes fail that replace a claim, and free it.
func TestH45_AWriteThatFailsChangesNothing(t *testing.T) {
	d := newFaultyDisk(1)
	f := openFaulty(t, d)
	id := Sum("a")
	version, err := f.Put(t.Context(), id, claimOf(Claimed), 0)
	if err != nil {
		t.Fatal(err)
	}
	used := f.Usage()
	d.mu.Lock()
	d.steps = 1
	d.mu.Unlock()
	if _, err := f.Put(t.Context(), id, claimOf(Answered), version); err == nil {
		t.Fatal("Put on a disk that fails = nil")
	}
	if err := f.Delete(t.Context(), id, version); err == nil {
		t.Fatal("Delete on a disk that fails = nil")
	}
	if got, err := f.Get(t.Context(), id); err != nil || got.Version != version || got.State != Claimed || f.Usage() != used {
		t.Errorf("Get = %v, %v, usage %v; want the claim as before, and %v", got.State, err, f.Usage(), used)
	}
}

func openFaulty(t *testing.T, d *faultyDisk) *Folder {
	t.Helper()
	f, err := OpenFolder(FolderOptions{Folder: "once", files: d})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func claimOf(s State) Record {
	now := time.Now()
	return Record{State: s, Since: now, Expires: now.Add(time.Hour), Body: make([]byte, 2000)}
}

// awaitPlaces waits until the next write has n frames.
func awaitPlaces(f *Folder, n int) {
	for {
		f.mu.Lock()
		ready := f.batch != nil && len(f.batch.place) == n
		f.mu.Unlock()
		if ready {
			return
		}
		runtime.Gosched()
	}
}
