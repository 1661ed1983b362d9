package disk

import (
	"path/filepath"
)

// The log of removals is one file. Every removal in it that Sync has waited for is
// durable. It is rewritten when it is large, and at each opening, without those that
// affect no record any more.
const (
	logName = "removals.log"
	logNext = "removals.next"
)

// maxLog bounds what is read of a log. It is rewritten long before it is that large.
const maxLog = 64 << 20

var logMagic = [8]byte([]byte("weirgone"))

// A journal is the open log. It belongs to one goroutine.
type journal struct {
	file File
	size int64
}

// append writes b at the end. After an error it may be repeated with the same b.
func (j *journal) append(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := j.file.WriteAt(b, j.size)
	if err == nil {
		j.size += int64(len(b))
	}
	return err
}

// readLog reads all removals. An incomplete one at the end was not acknowledged, and
// is ignored. Any other damage is an error: the removals are unknown.
func readLog(f File) (removals, error) {
	if _, _, err := readHeader(f, logMagic); err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxLog {
		return nil, errDamaged
	}
	m, w := removals{}, window{file: f, size: size}
	for at := int64(segmentHeader); at+removalSize <= size; at += removalSize {
		b, err := w.at(at, removalSize)
		if err != nil {
			return nil, err
		}
		r, ok := readRemoval(b)
		if !ok {
			if zero(b) && w.zeroFrom(at) {
				break // the file grew, and the machine crashed before the write
			}
			return nil, errDamaged
		}
		m.add(r)
	}
	return m, nil
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// zeroFrom reports whether only zeros follow.
func (w *window) zeroFrom(from int64) bool {
	for from < w.size {
		b, err := w.at(from, int(min(1<<20, w.size-from)))
		if err != nil || !zero(b) {
			return false
		}
		from += int64(len(b))
	}
	return true
}

// rewriteLog replaces the log by one with the removals in m. If it returns a journal
// and an error, the log is replaced, but that is not durable.
func (s *Store) rewriteLog(m removals) (*journal, error) {
	b := appendHeader(logMagic, 0, 0)
	for w, seq := range m {
		b = removal{w, seq}.append(b)
	}
	next, name := filepath.Join(s.o.Folder, logNext), filepath.Join(s.o.Folder, logName)
	_ = s.o.Files.Remove(next)
	f, err := s.o.Files.Open(next, true)
	if err != nil {
		return nil, err
	}
	j := &journal{file: f}
	if err = j.append(b); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = s.o.Files.Rename(next, name)
	}
	if err != nil {
		_ = f.Close()
		_ = s.o.Files.Remove(next)
		return nil, err
	}
	return j, s.o.Files.Flush(s.o.Folder)
}
