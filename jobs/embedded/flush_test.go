package embedded_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs/embedded"
)

// The last block holds what must be flushed. The flusher must find it even if the
// blocks before it were emptied and removed.
func TestFlushFindsTheLastBlock(t *testing.T) {
	f := embedded.NewFlusher(t.TempDir())
	defer f.Close("T")
	makeBlocks(t, f)
	for _, step := range []struct {
		what         string
		make, remove []int
		want         int
	}{
		{"the first time", []int{3, 5}, nil, 5},
		{"nothing new", nil, nil, 5},
		{"the next", []int{6}, nil, 6},
		{"several", []int{7, 8, 9}, nil, 9},
		{"a block that came and went in between", []int{11}, nil, 11},
		{"many such blocks", []int{30, 40}, []int{11}, 40},
		{"the last block emptied", []int{41}, []int{40}, 41},
		{"a number with more digits", []int{100}, nil, 100},
		{"all blocks but one removed", nil, []int{3, 5, 6, 7, 8, 9, 30, 41}, 100},
	} {
		for _, i := range step.make {
			writeFile(t, f.Block("T", i))
		}
		for _, i := range step.remove {
			if err := os.Remove(f.Block("T", i)); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := f.Flush("T"); got != step.want || err != nil {
			t.Errorf("%s: flushed up to block %d, %v; want %d, nil", step.what, got, err, step.want)
		}
	}
}

// An unchanged folder is not listed again. A new block is still found, even if it
// appears so soon after the listing that the folder's modification time does not
// change.
func TestFlushFindsABlockInAQuietFolder(t *testing.T) {
	for _, quiet := range []time.Duration{0, time.Hour} {
		f := embedded.NewFlusher(t.TempDir())
		folder := filepath.Dir(f.Block("T", 1))
		makeBlocks(t, f, 1)
		for i := 1; i <= 3; i++ {
			if i > 1 {
				writeFile(t, f.Block("T", i))
			}
			then := time.Now().Add(-quiet)
			if err := os.Chtimes(folder, then, then); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got, err := f.Flush("T"); got != i || err != nil {
					t.Errorf("quiet for %v: flushed up to block %d, %v; want %d, nil", quiet, got, err, i)
				}
			}
			if quiet == 0 { // the next block comes within the same tick
				writeFile(t, f.Block("T", i+1))
				if err := os.Chtimes(folder, then, then); err != nil {
					t.Fatal(err)
				}
				if got, err := f.Flush("T"); got != i+1 || err != nil {
					t.Errorf("in the same tick: flushed up to block %d, %v; want %d, nil", got, err, i+1)
				}
			}
		}
		f.Close("T")
	}
}

// After the server has rewritten a block, its name belongs to a new file. The flusher
// must flush the new file.
func TestFlushFindsABlockThatWasRewritten(t *testing.T) {
	f := embedded.NewFlusher(t.TempDir())
	defer f.Close("T")
	makeBlocks(t, f, 1)
	if _, err := f.Flush("T"); err != nil || !f.Holds("T") {
		t.Fatalf("Flush = %v, holds the block: %v; want nil, true", err, f.Holds("T"))
	}
	anew := f.Block("T", 1) + ".tmp"
	writeFile(t, anew)
	if err := os.Rename(anew, f.Block("T", 1)); err != nil {
		t.Fatal(err)
	}
	if f.Holds("T") {
		t.Fatal("the block is still the same file after a rewrite")
	}
	if _, err := f.Flush("T"); err != nil || !f.Holds("T") {
		t.Errorf("Flush = %v, holds the new one: %v; want nil, true", err, f.Holds("T"))
	}
}

func writeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// makeBlocks creates the given block files of stream T.
func makeBlocks(t *testing.T, f embedded.Flusher, blocks ...int) {
	t.Helper()
	folder := filepath.Dir(f.Block("T", 1))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"meta.inf", "meta.sum"} {
		writeFile(t, filepath.Join(filepath.Dir(folder), name))
	}
	for _, i := range blocks {
		writeFile(t, f.Block("T", i))
	}
}

func TestFlushOfWhatIsNoStream(t *testing.T) {
	f := embedded.NewFlusher(t.TempDir())
	for _, stream := range []string{"", ".", "..", "../T", `a\b`, "a/b"} {
		if _, err := f.Flush(stream); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Flush(%q) = %v; want an error that it is not a stream", stream, err)
		}
	}
	if _, err := f.Flush("T"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Flush of a missing stream = %v; want %v", err, fs.ErrNotExist)
	}
}
