package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A Queue has items, so it needs a consumer.
type Queue struct {
	Namespace, Name string
	Lease           time.Duration // of its jobs; 0: unknown
}

// A Healed is a consumer whose files were moved away. The server creates them again.
type Healed struct {
	File, Why string
}

// consumerState is the file in which the server keeps which items a consumer has handed
// out. It has no checksum, and one wrong bit in it can hold back a job for years.
const consumerState = "o.dat"

// heal makes the consumers hand out all items again, and moves away those whose
// description is damaged. It also returns the queues that need a consumer. The jobs
// themselves do not depend on consumers: their markers record what runs.
func heal(s *stored, away func(path string) error) (done []Healed, queues []Queue, err error) {
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
		path := filepath.Join(folder, e.Name())
		fault := metaFault(path, s.name+"/"+e.Name())
		if fault == nil {
			if err := remove(filepath.Join(path, consumerState)); err != nil {
				return done, nil, err
			}
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
