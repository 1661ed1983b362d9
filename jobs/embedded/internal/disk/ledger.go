package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The format of a ledger: its magic with a version, then frames, each preceded by its
// length and CRC-32C. A frame is a list of entries. The first byte of an entry gives
// its type.
const (
	ledgerMagic   = "weirledg"
	ledgerVersion = 1
	ledgerHead    = len(ledgerMagic) + 1

	entryQueue = 'q' // number, name: entries of this file refer to a queue by its number
	entryLast  = 'l' // last sequence, time in ms
	// the entry of a message begins with its kind
)

// Folder is the folder of the ledgers, within the folder of the server.
const Folder = "weir.ledger"

// A frame has perFrame messages at most, so that it is smaller than maxFrame. After
// damage, the next frame is looked for at each offset: without a bound, a large ledger
// would take minutes.
const (
	perFrame = 1 << 10
	maxFrame = 1 << 20
)

// compactFrom is the size from which a ledger is compacted.
const compactFrom = 4 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrNewer reports that files were written by a newer version of weir.
var ErrNewer = errors.New("written by a newer version of weir")

// A Ledger records which messages of a stream are on the disk. Except for Sync, it is
// not safe for concurrent use.
type Ledger struct {
	path   string
	f      *os.File
	size   int64
	least  int64 // the size after the last compaction
	queues map[string]uint64
	last   uint64
}

func ledgerPath(dir, stream string) string { return filepath.Join(dir, Folder, stream) }

// OpenLedger opens the ledger of a stream for appending, and creates it if necessary.
// It truncates a frame that a killed process left incomplete.
func OpenLedger(dir, stream string) (*Ledger, error) {
	l := &Ledger{path: ledgerPath(dir, stream), queues: map[string]uint64{}}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return nil, err
	}
	c, err := readLedger(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		c, err = nil, l.rewrite(newContents())
	}
	if err != nil {
		return nil, err
	}
	if c != nil {
		if l.f, err = os.OpenFile(l.path, os.O_RDWR, 0o600); err != nil {
			return nil, err
		}
		l.size, l.least, l.queues, l.last = c.size, c.size, c.numbers, c.last
		if err := l.f.Truncate(l.size); err != nil {
			return nil, errors.Join(err, l.f.Close())
		}
	}
	return l, nil
}

// Last returns the last recorded sequence.
func (l *Ledger) Last() uint64 { return l.last }

// maxCount bounds the size of ledgers that are read to count their jobs.
const maxCount = 16 << 20

// Jobs counts the recorded jobs that still exist. It returns a negative number if
// that would take long.
func (l *Ledger) Jobs(now time.Time) int {
	if l.size > maxCount {
		return -1
	}
	text := make([]byte, l.size)
	if _, err := l.f.ReadAt(text, 0); err != nil { // through the open file: its name may be gone
		return -1
	}
	c, err := decodeLedger(l.path, text)
	if err != nil {
		return -1
	}
	c.prune(now)
	all := map[key]bool{}
	for k := range c.messages {
		all[k.job()] = true
	}
	return len(all)
}

// Close closes the file.
func (l *Ledger) Close() error { return l.f.Close() }

// Sync flushes the recorded messages to the disk.
func (l *Ledger) Sync() error { return l.f.Sync() }

// note appends messages and the last sequence of the stream.
func (l *Ledger) note(messages []message, last uint64, at time.Time) error {
	if last < l.last {
		last = l.last
	}
	if len(messages) == 0 && last == l.last {
		return nil
	}
	text := l.frames(messages, last, at)
	if _, err := l.f.WriteAt(text, l.size); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	l.size += int64(len(text))
	l.last = last
	if l.size > max(compactFrom, 2*l.least) {
		return l.compact(at)
	}
	return nil
}

// frames encodes messages as frames. Only the last one has the last sequence: if it is
// missing, so are messages.
func (l *Ledger) frames(all []message, last uint64, at time.Time) (text []byte) {
	for len(all) > perFrame {
		text = append(text, l.frame(all[:perFrame], l.last, at)...)
		all = all[perFrame:]
	}
	return append(text, l.frame(all, last, at)...)
}

// frame encodes a frame.
func (l *Ledger) frame(messages []message, last uint64, at time.Time) []byte {
	b := make([]byte, 8, 64+48*len(messages))
	for _, m := range messages {
		n, known := l.queues[m.queue]
		if !known {
			n = uint64(len(l.queues))
			l.queues[m.queue] = n
			b = binary.AppendUvarint(append(b, entryQueue), n)
			b = binary.AppendUvarint(b, uint64(len(m.queue)))
			b = append(b, m.queue...)
		}
		b = binary.AppendUvarint(append(b, byte(m.kind)), n)
		b = append(b, m.id[:]...)
		b = binary.AppendUvarint(b, m.seq)
		b = binary.AppendVarint(b, m.time.UnixMilli())
		ttl := uint64(0)
		if !m.expires.IsZero() {
			ttl = 1 + uint64(max(0, m.expires.Sub(m.time))/time.Second)
		}
		b = binary.AppendUvarint(b, ttl)
	}
	b = binary.AppendUvarint(append(b, entryLast), last)
	b = binary.AppendVarint(b, at.UnixMilli())
	binary.LittleEndian.PutUint32(b, uint32(len(b)-8))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
	return b
}

// compact rewrites the ledger without finished jobs and expired messages.
func (l *Ledger) compact(now time.Time) error {
	c, err := readLedger(l.path)
	if err != nil {
		return err
	}
	c.prune(now)
	return l.rewrite(c)
}

// rewrite replaces the file with one that contains c, or creates it.
func (l *Ledger) rewrite(c *contents) error {
	next := &Ledger{path: l.path, queues: map[string]uint64{}}
	temp := l.path + ".new"
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	all := make([]message, 0, len(c.messages))
	for _, m := range c.messages {
		all = append(all, m)
	}
	text := append([]byte(ledgerMagic), ledgerVersion)
	text = append(text, next.frames(all, c.last, c.at)...)
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(temp, l.path)
	}
	if err == nil {
		err = SyncFolder(filepath.Dir(l.path))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if l.f != nil {
		_ = l.f.Close() // nothing more is written to it
	}
	next.f, next.size, next.least, next.last = f, int64(len(text)), int64(len(text)), c.last
	*l = *next
	return nil
}

// SyncFolder flushes the names in a folder to the disk.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
