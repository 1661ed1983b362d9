package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weir-go/weir/jobs/bounded"
)

// A Queue has items, so it needs a consumer.
type Queue struct {
	Namespace, Name string
	Lease           time.Duration // of its jobs; 0: unknown
}

// A consumerState is what the server keeps about the items that a consumer has handed
// out.
type consumerState struct {
	acked, delivered uint64               // stream sequences
	pending          map[uint64]time.Time // handed out but not acknowledged: when
	again            map[uint64]uint64    // those of them that were handed out before: how often
}

var errConsumer = errors.New("it cannot be read")

// The format of a consumer's file: two bytes, then numbers.
const (
	consumerMagic   = 22
	consumerVersion = 2
	maxPendingItems = 50_000_000
)

// decodeConsumer decodes a consumer's file, which has no checksum.
func decodeConsumer(b []byte) (*consumerState, error) {
	if len(b) < 2 || b[0] != consumerMagic || b[1] != consumerVersion {
		return nil, errConsumer
	}
	b = b[2:]
	bad := false
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if bad = bad || n <= 0; bad {
			return 0
		}
		b = b[n:]
		return v
	}
	signed := func() int64 {
		v, n := binary.Varint(b)
		if bad = bad || n <= 0; bad {
			return 0
		}
		b = b[n:]
		return v
	}
	_, acked, _, delivered := number(), number(), number(), number()
	s := &consumerState{acked: acked, delivered: delivered, pending: map[uint64]time.Time{}, again: map[uint64]uint64{}}
	n := number()
	if n > maxPendingItems {
		return nil, errConsumer
	}
	if n > 0 {
		newest := signed()
		for i := uint64(0); i < n && !bad; i++ {
			seq, _, before := number(), number(), signed()
			s.pending[seq+acked] = time.Unix(newest-before, 0)
		}
	}
	if n = number(); n > maxPendingItems {
		return nil, errConsumer
	}
	for i := uint64(0); i < n && !bad; i++ {
		seq := number()
		s.again[seq+acked] = number()
	}
	if bad {
		return nil, errConsumer
	}
	return s, nil
}

// fault returns why a queue's consumer would not hand out all of its items, for
// example because its file is damaged or much older than the stream.
func (c *consumerState) fault(s *stored, queue string) error {
	if c.acked > c.delivered || c.delivered > s.last {
		return fmt.Errorf("it is ahead of the jobs: at sequence %d of %d", c.delivered, s.last)
	}
	for seq, m := range s.items {
		if m.queue != queue || seq > c.delivered {
			continue
		}
		if _, ok := c.pending[seq]; !ok || seq <= c.acked {
			return fmt.Errorf("it leaves out the job at sequence %d", seq)
		}
	}
	return nil
}

// encode returns the file of a consumer without a fault that has handed out what c says,
// as far as the stream and the clock confirm it. No time is later than now: the server
// hands out an item again when its lease has passed since then, and one wrong bit could
// hold back a job for years. A job that has to wait longer than that, for its delay or
// its next attempt, is put off again by the worker that gets it.
func (c *consumerState) encode(s *stored, queue string, now time.Time) []byte {
	var out []uint64
	for seq, m := range s.items {
		if m.queue == queue && seq <= c.delivered {
			out = append(out, seq)
		}
	}
	slices.Sort(out)
	acked := c.delivered
	if len(out) > 0 {
		acked = out[0] - 1
	}
	b := []byte{consumerMagic, consumerVersion}
	for _, n := range []uint64{0, acked, uint64(len(out)), c.delivered, uint64(len(out))} {
		b = binary.AppendUvarint(b, n)
	}
	if len(out) > 0 {
		b = binary.AppendVarint(b, now.Unix())
	}
	var again []uint64
	for i, seq := range out {
		b = binary.AppendUvarint(b, seq-acked)
		b = binary.AppendUvarint(b, uint64(i)+1)
		b = binary.AppendVarint(b, max(0, now.Unix()-c.pending[seq].Unix()))
		if c.again[seq] > 0 {
			again = append(again, seq)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(again)))
	for _, seq := range again {
		b = binary.AppendUvarint(b, seq-acked)
		b = binary.AppendUvarint(b, c.again[seq])
	}
	return b
}

// A Healed is a consumer whose files were moved away. The server creates them again,
// and hands out all items.
type Healed struct {
	File, Why string
}

// heal makes sure that the consumers hand out all items: it rewrites what they have
// handed out, restores damaged metadata from their copies, and moves away damaged files
// that have none. It also returns the queues that need a consumer. The jobs themselves do
// not depend on consumers.
func heal(dir string, s *stored, away func(path string) error, now time.Time) (done []Healed, queues []Queue, err error) {
	folder := filepath.Join(s.dir, "obs")
	needed := map[string]bool{}
	for _, m := range s.items {
		needed[m.queue] = true
	}
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	copies := func(queue string) string { return consumerCopy(ledgerPath(dir, s.name), queue) }
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		name := s.name + "/" + e.Name()
		fault := metaFault(path, name)
		if fault != nil && e.IsDir() {
			restored, err := restoreMeta(copies(e.Name()), name, path)
			if err != nil {
				return done, nil, err
			}
			if restored {
				done, fault = append(done, Healed{filepath.Join(path, metaFiles[0]), cause(fault)}), nil
			}
		}
		if fault == nil {
			path, fault, err = s.healConsumer(path, now)
			if err != nil {
				return done, nil, err
			}
		}
		if fault == nil {
			continue
		}
		if err := away(path); err != nil {
			return done, nil, err
		}
		done = append(done, Healed{path, cause(fault)})
	}
	for queue := range needed {
		path := filepath.Join(folder, queue)
		if !exists(path) {
			if _, err := restoreMeta(copies(queue), s.name+"/"+queue, path); err != nil {
				return done, nil, err
			}
		}
		queues = append(queues, Queue{s.name[len(StreamPrefix):], queue, s.leases[queue]})
	}
	return done, queues, nil
}

// healConsumer rewrites the state of the consumer in dir, or returns what is wrong with
// it, and the file to move away.
func (s *stored) healConsumer(dir string, now time.Time) (path string, fault, err error) {
	queue := filepath.Base(dir)
	path = filepath.Join(dir, "o.dat")
	text, fault := bounded.File(path, maxBlock)
	if errors.Is(fault, fs.ErrNotExist) {
		return path, nil, nil // it has handed out nothing
	}
	if fault != nil {
		return path, fault, nil
	}
	c, fault := decodeConsumer(text)
	if fault == nil {
		fault = c.fault(s, queue)
	}
	if fault != nil {
		return path, fault, nil
	}
	return path, nil, replaceFile(path, c.encode(s, queue, now))
}
