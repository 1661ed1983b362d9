package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-go/weir/jobs/bounded"
)

// A Queue has items, so it needs a consumer.
type Queue struct {
	Namespace, Name string
	Lease           time.Duration // of its jobs; 0: unknown
}

// A consumerState is the part of a consumer's file that decides which items it hands
// out.
type consumerState struct {
	acked, delivered uint64               // stream sequences
	pending          map[uint64]time.Time // delivered but not acknowledged
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
	s := &consumerState{acked: acked, delivered: delivered, pending: map[uint64]time.Time{}}
	if n := number(); n > 0 {
		if n > maxPendingItems {
			return nil, errConsumer
		}
		newest := signed()
		for i := uint64(0); i < n && !bad; i++ {
			seq, _, before := number(), number(), signed()
			s.pending[seq+acked] = time.Unix(newest-before, 0)
		}
	}
	if bad {
		return nil, errConsumer
	}
	return s, nil
}

// fault returns why a queue's consumer would not hand out all of its items, for
// example because its file is damaged or much older than the stream.
func (c *consumerState) fault(s *stored, queue string, now time.Time) error {
	if c.acked > c.delivered || c.delivered > s.last {
		return fmt.Errorf("it is ahead of the jobs: at sequence %d of %d", c.delivered, s.last)
	}
	for seq, m := range s.items {
		if m.queue != queue || seq > c.delivered {
			continue
		}
		if at, ok := c.pending[seq]; !ok || at.After(now.Add(time.Hour)) {
			return fmt.Errorf("it leaves out the job at sequence %d", seq)
		}
	}
	return nil
}

// A Healed is a consumer whose files were moved away. The server creates them again,
// and hands out all items.
type Healed struct {
	File, Why string
}

// heal moves away files of consumers that would keep jobs from being handed out. It
// also returns the queues that need a consumer. The jobs themselves do not depend on
// consumers.
func heal(s *stored, away func(path string) error, now time.Time) (done []Healed, queues []Queue, err error) {
	folder := filepath.Join(s.dir, "obs")
	needed := map[string]bool{}
	for _, m := range s.items {
		needed[m.queue] = true
	}
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	for _, e := range entries {
		path, fault := consumerFault(s, filepath.Join(folder, e.Name()), now)
		if fault == nil {
			continue
		}
		needed[e.Name()] = true
		if err := away(path); err != nil {
			return done, nil, err
		}
		done = append(done, Healed{path, cause(fault)})
	}
	for queue := range needed {
		queues = append(queues, Queue{s.name[len(StreamPrefix):], queue, s.leases[queue]})
	}
	return done, queues, nil
}

// consumerFault returns what is wrong with the files of a consumer, and the file to
// move away.
func consumerFault(s *stored, dir string, now time.Time) (path string, fault error) {
	queue := filepath.Base(dir)
	if fault := metaFault(dir, s.name+"/"+queue); fault != nil {
		return dir, fault
	}
	path = filepath.Join(dir, "o.dat")
	text, err := bounded.File(path, maxBlock)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil // it has handed out nothing
	}
	if err != nil {
		return path, err
	}
	c, err := decodeConsumer(text)
	if err != nil {
		return path, err
	}
	return path, c.fault(s, queue, now)
}
