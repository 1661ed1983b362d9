package embedded_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-go/weir/jobs/embedded"
)

// What must be flushed is in the last block. Which one that is has to be seen
// also where those before it were emptied, and are gone.
func TestFlushFindsTheLastBlock(t *testing.T) {
	f := embedded.NewFlusher(t.TempDir())
	meta := filepath.Dir(filepath.Dir(f.Block("T", 1)))
	if err := os.MkdirAll(filepath.Join(meta, "msgs"), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(meta, "meta.inf"))
	write(filepath.Join(meta, "meta.sum"))
	for _, step := range []struct {
		what         string
		make, remove []int
		want         int
	}{
		{"the first time", []int{3, 5}, nil, 5},
		{"nothing new", nil, nil, 5},
		{"the next", []int{6}, nil, 6},
		{"several", []int{7, 8, 9}, nil, 9},
		{"one that came and went between", []int{11}, nil, 11},
		{"many that did", []int{30, 40}, []int{11}, 40},
		{"the last one emptied", []int{41}, []int{40}, 41},
		{"a number with more digits", []int{100}, nil, 100},
		{"and all but one gone", nil, []int{3, 5, 6, 7, 8, 9, 30, 41}, 100},
	} {
		for _, i := range step.make {
			write(f.Block("T", i))
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

func TestFlushOfWhatIsNoStream(t *testing.T) {
	f := embedded.NewFlusher(t.TempDir())
	for _, stream := range []string{"", ".", "..", "../T", `a\b`, "a/b"} {
		if _, err := f.Flush(stream); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Flush(%q) = %v; want an error that it is no stream", stream, err)
		}
	}
	if _, err := f.Flush("T"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Flush of a stream that is not there = %v; want %v", err, fs.ErrNotExist)
	}
}
