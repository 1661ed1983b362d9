package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs/embedded/internal/disk"
	"github.com/weir-go/weir/jobs/serve"
)

// A flusher flushes what the server has acknowledged to the disk, once for all
// callers that wait at a time. With its sync_always, the server would flush each
// message and each removal one after another.
//
// Without sync_always and without replicas, the server writes a message into the last
// block file of its stream before it acknowledges it. So all acknowledged messages
// are on the disk once that file is flushed, together with those files before it that
// were the last one until a moment ago. Removals are records in the same files.
type flusher struct {
	dir   string // the folder of the streams
	nc    *nats.Conn
	fail  func(error) // called for a flush that failed
	began func()      // called after the first flush that finds messages in a stream, before run answers

	release func() bool // makes descriptors available; false if there are none left

	kick chan struct{}
	stop chan struct{}
	done chan struct{}

	mu      sync.Mutex
	waiting []asked // guarded by mu

	folder string // the folder of the server

	work    sync.Mutex                // held during a flush
	tails   map[string]*tail          // guarded by work; keyed by stream
	follows map[string]*disk.Follower // guarded by work; keyed by stream
	ledgers map[string]time.Time      // guarded by work; keyed by stream; when its ledger was last flushed
}

// ledgerEvery is the least time between two flushes of a ledger. A second flush with each
// flush of the messages cost a program that submits one job after another a quarter of
// its rate.
const ledgerEvery = 50 * time.Millisecond

var _ serve.Flusher = (*flusher)(nil)

// An asked is one caller that waits for the flush of a stream.
type asked struct {
	stream string
	answer func(error) // must not block
}

// newFlusher returns a flusher for the streams in the folder of a server.
func newFlusher(dir string, fail func(error), began func(), release func() bool) *flusher {
	return &flusher{
		dir:    filepath.Join(dir, "jetstream", server.DEFAULT_GLOBAL_ACCOUNT, "streams"),
		folder: dir, fail: fail, began: began, release: release,
		kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		tails: make(map[string]*tail), follows: make(map[string]*disk.Follower), ledgers: make(map[string]time.Time),
	}
}

// serve answers requests on serve.RoomSubject over nc, and with flushes set those on
// serve.FlushSubject. It takes ownership of nc.
func (f *flusher) serve(nc *nats.Conn, flushes bool, room func() (int64, error)) error {
	f.nc = nc
	_, err := nc.Subscribe(serve.RoomSubject, func(m *nats.Msg) {
		left, why := room()
		if why != nil {
			m.Respond([]byte(why.Error()))
			return
		}
		m.RespondMsg(&nats.Msg{Header: nats.Header{serve.RoomLeft: {strconv.FormatInt(left, 10)}}})
	})
	if err == nil && flushes {
		_, err = nc.Subscribe(serve.FlushSubject, f.hear)
	}
	if err == nil {
		err = nc.Flush() // so that the subscriptions exist before the first request
	}
	if err != nil {
		nc.Close()
		return fmt.Errorf("embedded: %w", err)
	}
	return nil
}

// lastOf returns the path of the last block of a stream, or "".
func (f *flusher) lastOf(stream string) string {
	f.work.Lock()
	defer f.work.Unlock()
	dir := filepath.Join(f.dir, stream)
	if t := f.tails[stream]; t != nil {
		return blockFile(dir, t.index)
	}
	return lastBlock(dir)
}

func (f *flusher) close() {
	close(f.stop)
	<-f.done
	for _, stream := range f.streams() {
		_ = f.once(stream) // no caller waits for it, and the next start compares
	}
	if f.nc != nil {
		f.nc.Close()
	}
}

// reset closes all files, so that the next flush opens them again. It calls do while
// no flush runs.
func (f *flusher) reset(do func()) {
	f.work.Lock()
	defer f.work.Unlock()
	defer do()
	for stream := range f.tails {
		f.forget(stream)
	}
	for stream, follower := range f.follows {
		_ = follower.Close() // it was flushed, or the next check finds what is missing
		delete(f.follows, stream)
	}
}

// all starts a flush of every stream of jobs.
func (f *flusher) all() {
	for _, stream := range f.streams() {
		f.Begin(stream)
	}
}

// streams returns the streams of jobs.
func (f *flusher) streams() (all []string) {
	entries, _ := os.ReadDir(f.dir) // if it is gone, watch reports that
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), disk.StreamPrefix) {
			all = append(all, e.Name())
		}
	}
	return all
}

// marks flushes the ledgers and returns how far each stream has got.
func (f *flusher) marks() (map[string]disk.StreamMark, error) {
	f.work.Lock()
	defer f.work.Unlock()
	all := map[string]disk.StreamMark{}
	for stream, follower := range f.follows {
		if err := follower.Sync(); err != nil {
			return nil, err
		}
		all[stream] = disk.StreamMark{Last: follower.Last()}
	}
	return all, nil
}

// last returns the sequence up to which a stream has been read since the start, or 0.
func (f *flusher) last(stream string) uint64 {
	f.work.Lock()
	defer f.work.Unlock()
	if follower := f.follows[stream]; follower != nil {
		return follower.Last()
	}
	return 0
}

// jobs counts the jobs of a stream; it returns a negative number if counting would
// take long.
func (f *flusher) jobs(stream string) int {
	f.work.Lock()
	defer f.work.Unlock()
	if follower := f.follows[stream]; follower != nil {
		return follower.Jobs(time.Now())
	}
	return -1
}

// hear answers requests that arrive as messages. A client that gets no reply sends
// its request again.
func (f *flusher) hear(m *nats.Msg) {
	f.ask(asked{string(m.Data), func(err error) {
		if err != nil {
			m.Respond([]byte(err.Error()))
			return
		}
		m.Respond(nil)
	}})
}

// Begin implements serve.Flusher.
func (f *flusher) Begin(stream string) { f.ask(asked{stream, func(error) {}}) }

// Flush implements serve.Flusher.
func (f *flusher) Flush(ctx context.Context, stream string) error {
	done := make(chan error, 1)
	f.ask(asked{stream, func(err error) { done <- err }})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return cmp.Or(context.Cause(ctx), context.Canceled)
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

// While a file is being flushed, the server can hardly write to it. So after a flush of
// many messages, the next one waits a moment for more of them: one caller may wait for
// many. Measured with 256 jobs at once, this runs a quarter to a third more jobs per
// second than back-to-back flushes.
const (
	gatherFrom = 16
	gatherFor  = 2 * time.Millisecond
)

// run flushes until close. A request that arrives during a flush waits for the next
// one.
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
		many = false
		done := make(map[string]error, 1)
		for _, a := range all {
			err, is := done[a.stream]
			if !is {
				before := f.last(a.stream)
				err = f.once(a.stream)
				if isShort(err) && f.release() {
					err = f.once(a.stream)
				}
				// Without descriptors nothing was flushed, and nothing was dropped.
				if err != nil && !errors.Is(err, fs.ErrNotExist) && !isShort(err) {
					f.fail(err)
				}
				after := f.last(a.stream)
				if before == 0 && after > 0 {
					f.began()
				}
				many = many || after >= before+gatherFrom
				done[a.stream] = err
			}
			a.answer(err)
		}
	}
}

// once flushes a stream, and then records in its ledger what was flushed:
//
//  1. It reads what has been written by now.
//  2. It flushes that, together with the previous additions to the ledger, unless the
//     ledger was flushed less than ledgerEvery ago.
//  3. It records the new messages in the ledger. After a killed process, the ledger
//     lists everything that was acknowledged. After a power cut it may lack the last
//     flush and those in the ledgerEvery before it, and it is never ahead.
func (f *flusher) once(stream string) error {
	if stream == "" || strings.ContainsAny(stream, `/\`) || stream[0] == '.' {
		return fmt.Errorf("%q is not a stream", stream)
	}
	f.work.Lock()
	defer f.work.Unlock()
	if !strings.HasPrefix(stream, disk.StreamPrefix) {
		return f.flush(stream)
	}
	follower := f.follows[stream]
	if follower == nil {
		// Without a description it is no stream: its creation was cut short, or it is a file.
		if _, err := os.Stat(filepath.Join(f.dir, stream, "meta.inf")); err != nil {
			return fs.ErrNotExist
		}
		var err error
		if follower, err = disk.Follow(f.folder, f.dir, stream); err != nil {
			return err
		}
		f.follows[stream] = follower
	}
	if err := follower.Read(); err != nil {
		return err
	}
	synced := make(chan error, 1)
	if now := time.Now(); now.Sub(f.ledgers[stream]) >= ledgerEvery {
		f.ledgers[stream] = now
		go func() { synced <- follower.Sync() }() // ends before this function returns
	} else {
		synced <- nil
	}
	err := f.flush(stream)
	if err := errors.Join(err, <-synced); err != nil {
		return err
	}
	return follower.Note(time.Now())
}

// flush flushes a stream: the first time all of it, later the blocks from the
// previous tail onwards.
func (f *flusher) flush(stream string) error {
	err := fs.ErrNotExist
	if t := f.tails[stream]; t != nil {
		err = t.flush()
	}
	if errors.Is(err, fs.ErrNotExist) {
		f.forget(stream) // if there was a tail, its block was emptied and removed
		return f.first(stream)
	}
	return err
}

func (f *flusher) forget(stream string) {
	if t := f.tails[stream]; t != nil {
		t.close()
		delete(f.tails, stream)
	}
}

// first flushes all of a stream, and the folders above it. It opens the tail before
// that: if the block is replaced by another file by then, the next flush notices.
func (f *flusher) first(stream string) error {
	dir := filepath.Join(f.dir, stream)
	entries, err := os.ReadDir(blockFolder(dir))
	if err != nil {
		return err
	}
	var blocks []int
	for _, e := range entries {
		if i, isBlock := blockIndex(e.Name()); isBlock {
			blocks = append(blocks, i)
		}
	}
	var t *tail
	if len(blocks) > 0 {
		if t, err = openTail(dir, slices.Max(blocks)); ignoreGone(err) != nil {
			return err
		}
	}
	if err := flushAll(f.dir, dir, blocks); err != nil {
		t.close()
		return err
	}
	if t != nil {
		f.tails[stream] = t
	}
	return nil
}

// flushAll flushes blocks of the stream in dir, its metadata, and the folders up to
// root.
func flushAll(root, dir string, blocks []int) error {
	for _, i := range blocks {
		if err := ignoreGone(flushFile(blockFile(dir, i))); err != nil {
			return err
		}
	}
	paths := []string{filepath.Join(dir, "meta.inf"), filepath.Join(dir, "meta.sum")}
	for folder := blockFolder(dir); len(folder) >= len(root); folder = filepath.Dir(folder) {
		paths = append(paths, folder)
	}
	for _, path := range paths {
		if err := flushFile(path); err != nil {
			return err
		}
	}
	return nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func flushFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
