package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// A flusher puts on the disk what the server has acknowledged, for all who ask
// for it at a time. The server itself would flush each message, and each
// removal, one after another: that is what its sync_always does.
//
// Without it, and without replicas, the server writes a message into the last
// block file of its stream before it acknowledges it. So flushing that file, and
// those before it which were the last until a moment ago, flushes all that was
// acknowledged. Removals are notes in the same file.
type flusher struct {
	dir  string // of the streams
	nc   *nats.Conn
	fail func(error) // is told of a flush that failed

	kick chan struct{}
	stop chan struct{}
	done chan struct{}

	mu      sync.Mutex
	waiting []asked // guarded by mu

	tails map[string]*tail // only for run; by stream
}

var _ journal.Flusher = (*flusher)(nil)

// An asked is somebody who waits for the flush of a stream.
type asked struct {
	stream string
	answer func(error) // must not block
}

// A tail is the last block of a stream, when it was flushed last.
type tail struct {
	index int
	file  os.FileInfo
}

// startFlusher serves journal.FlushSubject on nc, which is its own from then on.
func startFlusher(dir string, nc *nats.Conn, fail func(error)) (*flusher, error) {
	f := &flusher{
		dir: filepath.Join(dir, "jetstream", server.DEFAULT_GLOBAL_ACCOUNT, "streams"),
		nc:  nc, fail: fail,
		kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		tails: make(map[string]*tail),
	}
	_, err := nc.Subscribe(journal.FlushSubject, f.hear)
	if err == nil {
		err = nc.Flush() // so that nobody asks before
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("embedded: %w", err)
	}
	go f.run()
	return f, nil
}

func (f *flusher) close() {
	close(f.stop)
	<-f.done
	f.nc.Close()
}

// hear answers those who ask by a message. An answer that is lost is asked for
// again.
func (f *flusher) hear(m *nats.Msg) {
	f.ask(asked{string(m.Data), func(err error) {
		if err != nil {
			m.Respond([]byte(err.Error()))
			return
		}
		m.Respond(nil)
	}})
}

// Begin implements journal.Flusher.
func (f *flusher) Begin(stream string) { f.ask(asked{stream, func(error) {}}) }

// Flush implements journal.Flusher.
func (f *flusher) Flush(ctx context.Context, stream string) error {
	done := make(chan error, 1)
	f.ask(asked{stream, func(err error) { done <- err }})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-f.done:
		return errRestarting
	}
}

func (f *flusher) ask(a asked) {
	f.mu.Lock()
	f.waiting = append(f.waiting, a)
	f.mu.Unlock()
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// While a file is flushed the server can hardly write to it. So where many wait,
// the next flush waits for more of them: measured with 256 jobs at once, a
// quarter to a third more of them a second than with one flush after another.
const (
	gatherFrom = 16
	gatherFor  = 2 * time.Millisecond
)

// run flushes until close. Who asks while it does waits for the next one.
func (f *flusher) run() {
	defer close(f.done)
	for many := false; ; {
		select {
		case <-f.stop:
			return
		case <-f.kick:
		}
		if many {
			time.Sleep(gatherFor)
		}
		f.mu.Lock()
		all := f.waiting
		f.waiting = nil
		f.mu.Unlock()
		many = len(all) >= gatherFrom
		done := make(map[string]error, 1)
		for _, a := range all {
			err, is := done[a.stream]
			if !is {
				if err = f.flush(a.stream); err != nil && !errors.Is(err, fs.ErrNotExist) {
					f.fail(err)
				}
				done[a.stream] = err
			}
			a.answer(err)
		}
	}
}

// flush puts a stream on the disk: the first time all of it, then the blocks
// from the one that was the last on.
func (f *flusher) flush(stream string) error {
	if stream == "" || strings.ContainsAny(stream, `/\`) || stream[0] == '.' {
		return fmt.Errorf("%q is no stream", stream)
	}
	dir := filepath.Join(f.dir, stream)
	last := f.tails[stream]
	if last == nil {
		return f.first(stream, dir)
	}
	i, grown := last.index, false
	for {
		info, err := flushFile(blockFile(dir, i))
		switch {
		case err == nil:
			// A block that was rewritten is another file with the name.
			grown = grown || !os.SameFile(info, last.file)
			f.tails[stream] = &tail{i, info}
		case !errors.Is(err, fs.ErrNotExist):
			return err
		case i == last.index:
			return f.first(stream, dir) // the block was emptied, and removed
		}
		next, err := blockAfter(dir, i)
		if err != nil {
			return err
		}
		if next == 0 {
			break
		}
		i = next
	}
	if grown {
		return flushDir(filepath.Join(dir, "msgs"))
	}
	return nil
}

// blockAfter returns the first block after i, or 0. Numbers are left out: a
// block that is emptied at once is gone, and the next one is there.
func blockAfter(dir string, i int) (int, error) {
	folder, err := os.Open(filepath.Join(dir, "msgs"))
	if err != nil {
		return 0, err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	next := 0
	for _, name := range names {
		if n, isBlock := blockIndex(name); isBlock && n > i && (next == 0 || n < next) {
			next = n
		}
	}
	return next, err
}

// first flushes all of a stream, and the folders that lead to it.
func (f *flusher) first(stream, dir string) error {
	newest := &tail{}
	err := filepath.WalkDir(filepath.Join(dir, "msgs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return ignoreGone(err)
		}
		index, isBlock := blockIndex(d.Name())
		if !isBlock {
			return nil
		}
		info, err := flushFile(path)
		if err == nil && index > newest.index {
			newest = &tail{index, info}
		}
		return ignoreGone(err)
	})
	for _, name := range [...]string{"meta.inf", "meta.sum"} {
		if err == nil {
			_, err = flushFile(filepath.Join(dir, name))
		}
	}
	for folder := filepath.Join(dir, "msgs"); err == nil && len(folder) >= len(f.dir); folder = filepath.Dir(folder) {
		err = flushDir(folder)
	}
	if err != nil {
		return err
	}
	if newest.index > 0 {
		f.tails[stream] = newest
	}
	return nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func blockFile(dir string, index int) string {
	return filepath.Join(dir, "msgs", strconv.Itoa(index)+".blk")
}

func blockIndex(name string) (int, bool) {
	number, ok := strings.CutSuffix(name, ".blk")
	index, err := strconv.Atoi(number)
	return index, ok && err == nil
}

// flushFile flushes a file and returns which it is.
func flushFile(path string) (os.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return nil, err
	}
	return f.Stat()
}

func flushDir(path string) error {
	_, err := flushFile(path)
	return err
}
