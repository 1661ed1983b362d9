package embedded_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

func TestJ1_KilledStoreHasAllJobs(t *testing.T) {
	w := newWard(t)
	if blocks := w.files(t, blockFiles); len(blocks) < 2 {
		t.Fatalf("%d blocks; want several", len(blocks))
	}
	got := w.open(t, "killed")
	if got.err != nil {
		t.Fatalf("Start after a kill = %v; want nil", got.err)
	}
	if strings.Contains(got.logs, "level=WARN") || strings.Contains(got.logs, "level=ERROR") {
		t.Errorf("log after a kill:\n%s\nwant nothing that looks like data loss", got.logs)
	}
}

// A damage is applied to one file or folder.
type damage struct {
	name string
	at   string // pattern
	do   func(t *testing.T, path string)
}

func flip(share float64) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		i := min(int(share*float64(len(text))), len(text)-1)
		text[i] ^= 1 << rand.N(8)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func cut(share float64) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		info, err := os.Stat(path)
		if err == nil {
			err = os.Truncate(path, int64(share*float64(info.Size())))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func remove(t *testing.T, path string) {
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func garbage(t *testing.T, path string) {
	if err := os.WriteFile(path, []byte("this is not the original text"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// handOutLater makes a consumer's state say that its first items are with workers for
// another hour. The state has no checksum, and one flipped bit can say so.
func handOutLater(t *testing.T, path string) {
	const out = 50                                    // sequences; the store has a few more
	text := []byte{22, 2}                             // magic number and version
	for _, n := range []uint64{0, 0, out, out, out} { // acknowledged, delivered (twice each), and how many are out
		text = binary.AppendUvarint(text, n)
	}
	text = binary.AppendVarint(text, time.Now().Add(59*time.Minute).Unix())
	for n := range uint64(out) {
		text = binary.AppendUvarint(binary.AppendUvarint(text, n+1), n+1) // in the stream, and as delivered
		text = binary.AppendVarint(text, 0)                               // seconds before the time above
	}
	if err := os.WriteFile(path, binary.AppendUvarint(text, 0), 0o600); err != nil { // none was redelivered
		t.Fatal(err)
	}
}

func damages() (all []damage) {
	for _, share := range []float64{0, 0.33, 0.77, 1} {
		all = append(all, damage{fmt.Sprintf("a bit flipped at %.4f", share), blockFiles, flip(share)})
	}
	for _, share := range []float64{0, 0.5, 0.999} {
		all = append(all, damage{fmt.Sprintf("cut at %.3f", share), blockFiles, cut(share)})
	}
	for _, at := range []string{blockFiles, streamFiles + "/msgs", streamFiles + "/obs", streamFiles, "jetstream/$G/streams", "jetstream", "../jobs",
		streamFiles + "/meta.*", streamFiles + "/obs/*", streamFiles + "/obs/*/*", "weir.ledger"} {
		all = append(all, damage{"removed", at, remove})
	}
	for _, at := range []string{streamFiles + "/meta.*", streamFiles + "/obs/*/*", "weir.ledger/*", blockFiles} {
		all = append(all, damage{"overwritten", at, garbage}, damage{"emptied", at, cut(0)}, damage{"halved", at, cut(0.5)})
		for _, share := range []float64{0, 0.5, 1} {
			all = append(all, damage{fmt.Sprintf("a bit flipped at %.1f", share), at, flip(share)})
		}
	}
	return append(all, damage{"handed out later", streamFiles + "/obs/*/o.dat", handOutLater})
}

func TestJ1_DamagedStoreHasAllJobsOrIsRefused(t *testing.T) {
	w := newWard(t) // creates the store once, before the parallel subtests need it
	var refused, whole atomic.Int32
	t.Run("matrix", func(t *testing.T) {
		for _, d := range damages() {
			n := len(w.files(t, d.at))
			if strings.Contains(d.at, "obs") {
				n = min(n, 3) // three damages cover all files of one consumer
			}
			for i := range n {
				t.Run(fmt.Sprintf("%s %s %d", d.name, filepath.Base(d.at), i), func(t *testing.T) {
					t.Parallel()
					w := newWard(t)
					path := w.files(t, d.at)[i]
					rel, _ := filepath.Rel(w.folder(), path)
					what := rel + " " + d.name
					d.do(t, path)
					w.unlisted = rel == "."
					if w.open(t, what).err == nil {
						whole.Add(1)
						return
					}
					refused.Add(1)
					w.repaired(t, what, embedded.RepairOptions{})
				})
			}
		}
	})
	t.Logf("%d refused, %d whole", refused.Load(), whole.Load())
	if refused.Load() == 0 || whole.Load() == 0 {
		t.Errorf("%d refused, %d whole; want some of each", refused.Load(), whole.Load())
	}
}

func TestJ1_DamagedIndexesAreMadeAnew(t *testing.T) {
	for _, name := range []string{"index.db", "thw.db"} {
		for _, do := range []func(*testing.T, string){flip(0.5), flip(1), cut(0.5), garbage, remove} {
			w := newWard(t)
			s, err := embedded.Start(embedded.Options{Dir: w.folder()})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(context.Background()); err != nil { // Close writes the indexes
				t.Fatal(err)
			}
			do(t, w.files(t, streamFiles+"/msgs/"+name)[0])
			if got := w.open(t, name); got.err != nil {
				t.Errorf("Start with a damaged %s = %v; want nil", name, got.err)
			}
		}
	}
}

func TestJ2_FencesGoOnAfterAStoreWasRestored(t *testing.T) {
	w := newWard(t)
	copied := newWard(t) // the older copy
	s, err := embedded.Start(embedded.Options{Dir: w.folder()})
	if err != nil {
		t.Fatal(err)
	}
	w.wantAll(t, "before", s, w.ids)
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	remove(t, w.folder())
	if err := os.Rename(copied.folder(), w.folder()); err != nil {
		t.Fatal(err)
	}
	if got := w.open(t, "restored"); got.err == nil || !strings.Contains(got.err.Error(), "--restored") {
		t.Fatalf("Start of an older copy = %v; want an error that names --restored", got.err)
	}
	w.fence = 1 << 20 // above all fences given after the copy was made
	w.repaired(t, "restored", embedded.RepairOptions{Restored: true})
}

// The folder may vanish and the process crash right after the first job is acknowledged.
func TestJ1_AFolderThatVanishedIsMissedFromTheFirstJobOn(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "jobs")
	s := start(t, embedded.Options{Dir: folder})
	safe, _, _ := wardQueues(t, s)
	if _, err := safe.Submit(t.Context(), "in", jobs.SubmitOptions{}); err != nil {
		t.Fatal(err)
	}
	// What a crash at this moment leaves beside the folder; the folder itself is
	// gone.
	w := ward{dir: t.TempDir()}
	left, err := filepath.Glob(folder + ".*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range left {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(w.dir, filepath.Base(file)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err = embedded.Start(embedded.Options{Dir: w.folder()})
	if _, ok := errors.AsType[*embedded.DamageError](err); !ok {
		t.Errorf("Start = %v; want a DamageError, because the job is missing", err)
	}
}
