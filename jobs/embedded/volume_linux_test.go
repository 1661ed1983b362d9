package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// volume mounts a small file system in memory, and returns its folder.
func volume(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := mountVolume(t, dir, options); err != nil {
		t.Skipf("WITHOUT tmpfs, which only root can mount: %v", err)
	}
	return dir
}

// mountVolume mounts a small file system in memory on dir.
func mountVolume(t *testing.T, dir, options string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		return err
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmounting the volume: %v", err)
		}
	})
	return nil
}

// A volume that accepted jobs have filled drains: at the time, and after a restart.
func TestJ17_AVolumeThatJobsHaveFilledDrains(t *testing.T) {
	dir := filepath.Join(volume(t, "size=64m"), "jobs")
	var said journal
	o := embedded.Options{Dir: dir, MinFree: 16 << 20, Log: said.logger()}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(said.text())
		}
	})
	s, err := embedded.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	store, q := openQueue(t, nc)
	input := strings.Repeat("x", 50<<10)
	accepted := map[string]bool{}
	eventually(t, "a job is refused", func() bool {
		for range 100 {
			h, err := q.Submit(t.Context(), input, jobs.SubmitOptions{})
			if errors.Is(err, jobs.ErrFull) {
				return true
			}
			if err != nil {
				t.Fatal(err)
			}
			accepted[h.ID()] = true
		}
		return false
	})
	if len(accepted) < 100 {
		t.Fatalf("%d jobs were accepted; want that they fill the volume", len(accepted))
	}
	half := len(accepted) / 2
	done := make(chan string, len(accepted))
	work := func(q *jobs.Queue[string, string], most int) {
		t.Helper()
		w, err := q.Work(func(_ context.Context, j *jobs.Job[string]) (string, error) {
			done <- j.ID
			return "done", nil
		}, jobs.WorkerOptions{Concurrency: 8})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, fmt.Sprintf("%d of %d jobs have run", most, len(accepted)), func() bool { return len(done) >= most })
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	work(q, half)
	_ = store.Close(t.Context())
	nc.Close()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = start(t, o)
	if nc, err = s.Connect(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	_, q = openQueue(t, nc)
	work(q, len(accepted))
	for id := range accepted {
		if st, err := q.Job(id).Status(t.Context()); err != nil || st.State != jobs.StateDone {
			t.Fatalf("job %s is %v, %v; want done", id, st.State, err)
		}
	}
	t.Logf("%d jobs were accepted, and ended", len(accepted))
}

// Bytes and inodes run out while jobs run, without a warning, and are given back: every job
// ends without a restart.
func TestJ17_JobsEndOnceAFullVolumeHasRoomAgain(t *testing.T) {
	for name, c := range map[string]struct {
		options string
		size    int // of the files that fill the volume
	}{
		"bytes":  {"size=64m", 64 << 10},
		"inodes": {"size=64m,nr_inodes=300", 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := volume(t, c.options)
			var said journal
			s := start(t, embedded.Options{Dir: filepath.Join(root, "jobs"), MinFree: 4 << 20, Log: said.logger()})
			nc, err := s.Connect()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			_, q := openQueue(t, nc)
			var accepted []*jobs.Handle[string]
			for range 60 {
				h, err := q.Submit(t.Context(), strings.Repeat("x", 200<<10), jobs.SubmitOptions{})
				if err != nil {
					t.Fatal(err)
				}
				accepted = append(accepted, h)
			}
			// Some jobs end while the volume fills; the others try to once it is full. All of them
			// together would give back more than is kept free.
			full, ran := make(chan struct{}), atomic.Int32{}
			w, err := q.Work(func(ctx context.Context, j *jobs.Job[string]) (string, error) {
				if ran.Add(1) > 10 {
					select {
					case <-full:
					case <-ctx.Done():
						return "", context.Cause(ctx)
					}
				}
				return strings.Repeat("y", 50<<10), nil
			}, jobs.WorkerOptions{Concurrency: 4})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = w.Close(context.Background()) })
			fill(t, filepath.Join(root, "fill"), c.size)
			eventually(t, "the volume counts as full", func() bool { return s.Err() != nil })
			close(full)
			if _, err := q.Submit(t.Context(), "refused", jobs.SubmitOptions{}); err == nil {
				t.Error("Submit to a full volume = nil; want an error")
			}
			remove(t, filepath.Join(root, "fill"))
			for i, h := range accepted {
				if _, err := h.Wait(t.Context()); err != nil {
					t.Fatalf("job %d = %v; want that it ends\n%s", i, err, said.text())
				}
			}
			eventually(t, "jobs are accepted again", func() bool {
				_, err := q.Submit(t.Context(), "again", jobs.SubmitOptions{})
				return err == nil
			})
		})
	}
}

// Descriptors run out while jobs run, and are given back: every job ends without a restart.
func TestJ17_JobsEndOnceThereAreDescriptorsAgain(t *testing.T) {
	p := startProgram(t, t.TempDir(), jobs.DurabilityDisk)
	_, q := openQueue(t, connectTo(t, p.addr))
	var accepted []*jobs.Handle[string]
	submit := func(input string) error {
		h, err := q.Submit(t.Context(), input, jobs.SubmitOptions{})
		if err == nil {
			accepted = append(accepted, h)
		}
		return err
	}
	for range 60 {
		if err := submit(strings.Repeat("x", 200<<10)); err != nil {
			t.Fatal(err)
		}
	}
	may := make(chan struct{})
	handler := func(ctx context.Context, _ *jobs.Job[string]) (string, error) {
		select {
		case <-may:
		case <-ctx.Done():
		}
		return strings.Repeat("y", 50<<10), ctx.Err()
	}
	w, err := q.Work(handler, jobs.WorkerOptions{Concurrency: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(context.Background()) })
	eventually(t, "the lack is noticed", func() bool {
		p.tell(t, "descriptors", "held") // again: a probe may have had some for a moment
		return p.said.has("new jobs fail") || p.said.has("starting the server again failed")
	})
	eventually(t, "new jobs are refused", func() bool { return submit("small") != nil })
	close(may)
	p.tell(t, "release", "released")
	for i, h := range accepted {
		if _, err := h.Wait(t.Context()); err != nil {
			t.Fatalf("job %d = %v; want that it ends\n%s", i, err, p.said.text())
		}
	}
	eventually(t, "jobs are accepted again", func() bool { return submit("small") == nil })
}
