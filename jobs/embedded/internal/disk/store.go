package disk

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/jobs/bounded"
)

// maxBlock bounds how much of a block file is read: the server ends a block at 8 MiB,
// not counting its last message.
const maxBlock = 1 << 30

// streamsFolder returns where the server keeps its streams.
func streamsFolder(dir string) string { return filepath.Join(dir, "jetstream", "$G", "streams") }

// A block is the contents of a block file.
type block struct {
	index int
	path  string
	size  int
	holes []hole
	err   error
}

// A stored is the contents of a stream's files.
type stored struct {
	name, dir string
	blocks    []block
	messages  map[key]message // the latest per key that was not removed
	items     map[uint64]message
	others    map[string]other // the latest per subject that belongs to no job
	removed   int              // jobs' messages that a removal has taken off messages
	tombs     map[uint64]bool
	last      uint64
	newest    time.Time // time of the newest record
	form      int       // the newest format version of its messages
	leases    map[string]time.Duration
}

// readStream reads the files of a stream.
func readStream(dir, name string) (*stored, error) {
	s := &stored{
		name: name, dir: filepath.Join(streamsFolder(dir), name),
		messages: map[key]message{}, items: map[uint64]message{}, tombs: map[uint64]bool{},
		leases: map[string]time.Duration{}, others: map[string]other{},
	}
	indexes, err := blockIndexes(s.dir)
	if err != nil {
		return s, err
	}
	for _, i := range indexes {
		s.readBlock(i)
	}
	// A rewritten removal may be stored before or after the message that it removes.
	for k, m := range s.messages {
		if s.tombs[m.seq] {
			delete(s.messages, k)
			s.removed++
		}
	}
	for _, m := range s.messages {
		if m.kind == work {
			s.items[m.seq] = m
		}
	}
	return s, nil
}

func (s *stored) readBlock(index int) {
	b := block{index: index, path: blockPath(s.dir, index)}
	text, err := readFile(b.path, maxBlock)
	b.size, b.err = len(text), err
	b.holes = scan(text, s.name, index, s.take)
	s.blocks = append(s.blocks, b)
}

// take adds a record.
func (s *stored) take(r record) {
	s.last = max(s.last, r.seq)
	if at := time.Unix(0, r.time); at.After(s.newest) {
		s.newest = at
	}
	if r.tomb {
		s.tombs[r.seq] = true
		return
	}
	m, ok := r.message()
	if !ok {
		s.takeOther(r)
		return
	}
	meta := field(r.header, metaHeader)
	s.form = max(s.form, form(meta))
	if m.kind == work {
		if lease := leaseOf(meta); lease > 0 {
			s.leases[m.queue] = lease
		}
	}
	if old, there := s.messages[m.key]; !there || old.seq < m.seq {
		s.messages[m.key] = m
	}
}

// state returns the state of a job, if it is there.
func (s *stored) state(k key) (message, bool) {
	m, ok := s.messages[key{k.queue, k.id, true}]
	return m, ok
}

// over reports whether an item belongs to a finished job.
func (s *stored) over(m message) bool {
	after, ok := s.state(m.key)
	return ok && after.kind == terminal && after.seq > m.seq
}

// jobs counts the jobs that are there, except those in without.
func (s *stored) jobs(now time.Time, without map[key]bool) int {
	all := map[key]bool{}
	for k, m := range s.messages {
		if !m.gone(now) && (m.kind != state || s.hasItem(k)) && !without[k.job()] {
			all[k.job()] = true
		}
	}
	return len(all)
}

func (s *stored) hasItem(k key) bool {
	_, ok := s.messages[k.job()]
	return ok
}

// lacks reports whether a flushed message counts as missing. It does not if it is
// there, or may have been removed.
func (s *stored) lacks(m message, now time.Time) bool {
	have, there := s.messages[m.key]
	switch {
	case there && have.seq >= m.seq, m.gone(now), s.tombs[m.seq]:
		return false
	case m.kind == work:
		return !s.over(m)
	}
	// The state may be of an earlier life of the job than the item that is there.
	item, there := s.messages[m.job()]
	return !there || item.seq < m.seq
}

// metaFiles describe a stream or a consumer; the second is the checksum of the first.
var metaFiles = [2]string{"meta.inf", "meta.sum"}

// metaFault returns what is wrong with the metadata in dir. name is the key of its
// checksum.
func metaFault(dir, name string) error { return copyFault(dir+string(filepath.Separator), name) }

// copyFault is metaFault for files whose paths begin with a prefix.
func copyFault(prefix, name string) error {
	text, err := small(prefix + metaFiles[0])
	if err != nil {
		return err
	}
	sum, err := small(prefix + metaFiles[1])
	if err != nil {
		return err
	}
	if metaSum(text, name) != string(bytes.TrimSpace(sum)) {
		return errors.New("its checksum does not match")
	}
	return nil
}

func metaSum(text []byte, name string) string {
	h := sumOf(name)
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

// names returns the streams in dir: those with files, a ledger or a mark.
func names(dir string, m *Mark) ([]string, error) {
	all := map[string]bool{}
	for _, folder := range []string{streamsFolder(dir), filepath.Join(dir, Folder)} {
		entries, err := os.ReadDir(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), streamsAnyForm) && filepath.Ext(e.Name()) == "" {
				all[e.Name()] = true
			}
		}
	}
	if m != nil {
		for name := range m.Streams {
			all[name] = true
		}
	}
	list := make([]string, 0, len(all))
	for name := range all {
		list = append(list, name)
	}
	return sorted(list), nil
}

// small reads a file that should have at most a megabyte.
func small(path string) ([]byte, error) { return bounded.File(path, 1<<20) }

func sorted[T ~[]E, E int | string](all T) T { slices.Sort(all); return all }

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

// readFile reads a file of at most the given number of bytes, however long the disk
// takes. bounded.File would give up on a slow disk.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bounded.All(f, most)
}
