package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/jobs/embedded"
)

// A journal is the log of a Server.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) has(s string) bool { return strings.Contains(j.text(), s) }

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

func (j *journal) clear() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.buf.Reset()
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

func TestDiskThatFillsIsARefusalUntilThereIsRoom(t *testing.T) {
	var free atomic.Int64
	free.Store(100 << 20)
	// Cleanups run last in, first out: the server closes before the real value is
	// restored.
	t.Cleanup(embedded.SetFree(&free))
	var said journal
	s := start(t, embedded.Options{Dir: t.TempDir(), MinFree: 64 << 20, Log: said.logger()})
	js := connect(t, s)
	makeStream(t, js)
	if _, err := js.Publish(t.Context(), "t.a", nil); err != nil {
		t.Fatalf("Publish with room = %v; want nil", err)
	}

	free.Store(64<<20 - 1)
	eventually(t, "the disk counts as full", func() bool { return said.has("disk full; new jobs fail") })
	if _, err := js.Publish(t.Context(), "t.a", nil); err != nil {
		t.Fatalf("Publish to a disk whose rest is for accepted jobs = %v; want nil", err)
	}
	free.Store(16<<20 - 1)
	eventually(t, "the disk is full", func() bool { return said.has("all writes fail") })
	_, err := js.Publish(t.Context(), "t.a", nil)
	wantAPIError(t, "Publish to a full disk", err, 10002)
	if err := publishBatch(t.Context(), js.Conn(), "b", 3); err == nil || !strings.Contains(err.Error(), "10002") {
		t.Errorf("batch to a full disk = %v; want JetStream's error 10002", err)
	}
	if got := messages(t, js); got != 2 {
		t.Errorf("messages = %d; want 2", got)
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "nothing is written") {
		t.Errorf("Err = %v; want that nothing is written", err)
	}

	free.Store(80 << 20)
	eventually(t, "the disk has room again", func() bool { return said.has("room again") })
	if _, err := js.Publish(t.Context(), "t.a", nil); err != nil {
		t.Errorf("Publish with room again = %v; want nil", err)
	}
}

func TestDiskThatIsFullAtTheStart(t *testing.T) {
	dir := t.TempDir()
	s := start(t, embedded.Options{Dir: dir, MaxBytes: 1 << 20})
	js := connect(t, s)
	makeStream(t, js)
	if _, err := js.Publish(t.Context(), "t.a", nil); err != nil {
		t.Fatal(err)
	}
	js.Conn().Close()
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}

	var free atomic.Int64
	t.Cleanup(embedded.SetFree(&free))
	js = connect(t, start(t, embedded.Options{Dir: dir, MaxBytes: 1 << 20}))
	makeStream(t, js) // the stream exists already, so this writes nothing
	_, err := js.Publish(t.Context(), "t.a", nil)
	wantAPIError(t, "Publish to a full disk", err, 10002)
}

func TestNegativeMinFreeAcceptsToTheLast(t *testing.T) {
	var free atomic.Int64
	t.Cleanup(embedded.SetFree(&free))
	js := connect(t, start(t, embedded.Options{Dir: t.TempDir(), MinFree: -1}))
	makeStream(t, js)
	if _, err := js.Publish(t.Context(), "t.a", nil); err != nil {
		t.Errorf("Publish = %v; want nil", err)
	}
}

// A process that ends while it creates a stream leaves a folder without its description. The
// server passes over it, and jobs of other streams go on, whether it stays or is removed.
func TestJ17_AStreamThatWasHardlyCreatedHidesNoJobs(t *testing.T) {
	for name, folders := range map[string][]string{
		"empty":                    {"WEIR_JOBS_1_other"},
		"with its folders":         {"WEIR_JOBS_1_other", "WEIR_JOBS_1_other/msgs", "WEIR_JOBS_1_other/obs"},
		"under an impossible name": {"WEIR_JOBS_1_default~"},
	} {
		t.Run(name, func(t *testing.T) {
			var free atomic.Int64
			free.Store(1 << 30)
			t.Cleanup(embedded.SetFree(&free))
			var said journal
			w := newWard(t)
			streams := filepath.Join(w.folder(), "jetstream", "$G", "streams")
			for _, folder := range folders {
				if err := os.MkdirAll(filepath.Join(streams, folder), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			s := start(t, embedded.Options{Dir: w.folder(), MinFree: 64 << 20, Log: said.logger()})
			look := func() {
				t.Helper()
				free.Store(64<<20 - 1)
				eventually(t, "the disk counts as full, or the files as gone", func() bool { return said.has("new jobs fail") || s.Down() != nil })
				free.Store(1 << 30)
				eventually(t, "the disk has room, or the files are gone", func() bool { return said.has("room again") || s.Down() != nil })
				if err := s.Down(); err != nil {
					t.Fatalf("Down() = %v; want nil", err)
				}
			}
			look()
			said.clear()
			remove(t, filepath.Join(streams, folders[0]))
			look()
			w.wantAll(t, name, s, w.ids)
		})
	}
}

func TestJ1_AStreamThatVanishesBeforeItsFirstFlushIsTold(t *testing.T) {
	w := newWard(t)
	s := start(t, embedded.Options{Dir: w.folder()})
	if err := os.Rename(filepath.Join(w.folder(), "jetstream", "$G", "streams", "WEIR_JOBS_1_default"), filepath.Join(w.dir, "away")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server is given up", func() bool { return errors.Is(s.Down(), embedded.ErrVanished) })
}
