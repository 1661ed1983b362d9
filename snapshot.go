package weir

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/varint"
	"github.com/weir-go/weir/limit"
)

// Bounds of a snapshot.
const (
	MaxSnapshotEntry = 16 << 20 // bytes of an entry that Guard.Snapshot encodes
	MaxSnapshotBytes = 1 << 30  // bytes of all entries of Guard.Snapshot together
)

// ErrSnapshot is matched by an error of Restore for input that is not a complete
// snapshot of a Guard with these types, Name and codec, in a known version.
var ErrSnapshot = errors.New("weir: not a snapshot that this guard can restore")

// The format: snapshotMagic, the version, and records. A record is the length of its
// payload (4 bytes, big-endian), the payload, and the checksum (CRC-32C, big-endian) of
// the previous checksum and the payload, so that records cannot be cut out or moved.
// The first byte of a payload is its kind; the fields are those of varint. The first
// record is the head, the last is the end with the number of entries.
const (
	snapshotMagic   = "weirsnap"
	snapshotVersion = 1

	snapshotHead  = 'h'
	snapshotEntry = 'e'
	snapshotEnd   = 'z'
)

// reservedBytes are left of MaxSnapshotBytes for the head and the end.
const reservedBytes = 64 << 10

// clockStep is how far the wall clock may have been set back since a snapshot was
// written, or be behind that of the machine that wrote it. Beyond it, the age of the
// entries is unknown.
const clockStep = time.Minute

// Snapshot writes the entries in memory to w, for a [Guard.Restore] in another process,
// and returns how many it has written. It writes values that may be served, fresh or
// stale, with their instants on the wall clock, tags, versions and costs. Negative entries
// and remembered failures are left out.
//
// Calls are served meanwhile; an entry that changes while Snapshot runs is in it as it
// was before or after. codec encodes keys and values and is called on this goroutine;
// nil means fleet.JSON. If some entries cannot be encoded, have a key that the codec does
// not decode as it was, or are larger than MaxSnapshotEntry, or if MaxSnapshotBytes is reached, the snapshot has the others, is
// valid, and the error is a *SnapshotError. With any other error it is not valid. A
// closed Guard can be written, too.
//
// To write a file, write to a temporary one, sync it, and rename it.
func (g *Guard[K, V]) Snapshot(ctx context.Context, w io.Writer, codec fleet.Codec) (int, error) {
	if codec == nil {
		codec = fleet.JSON{}
	}
	out := &snapshotWriter{w: bufio.NewWriter(w)}
	_, out.err = out.w.WriteString(snapshotMagic + string([]byte{snapshotVersion}))
	at := stampOf(time.Now(), g.clock())
	out.record(g.snapshotHead(codec, at.wall))
	n, size := 0, int64(0)
	var left SnapshotError
	for key, e := range g.store.All() {
		if err := context.Cause(ctx); err != nil {
			return n, err
		}
		if e.kind != kindValue || e.outdated() || g.clock() >= e.errorUntil {
			continue
		}
		b, err := g.encodeEntry(codec, key, e, at)
		switch {
		case err != nil:
			left.Entries++
			left.Err = err
			continue
		case len(b) > MaxSnapshotEntry || size+int64(len(b))+recordOverhead > MaxSnapshotBytes-reservedBytes:
			left.Entries++
			left.Err = fmt.Errorf("weir: an entry of %d bytes is too large for the snapshot", len(b))
			continue
		}
		out.record(b)
		if out.err != nil {
			return n, out.err
		}
		n++
		size += int64(len(b)) + recordOverhead
	}
	out.record(binary.AppendUvarint([]byte{snapshotEnd}, uint64(n))) //nolint:gosec // not negative
	if out.err == nil {
		out.err = out.w.Flush()
	}
	if out.err == nil && left.Entries > 0 {
		return n, &left
	}
	return n, out.err
}

// A SnapshotError is returned by Snapshot if entries are missing in it.
type SnapshotError struct {
	Entries int   // that are missing
	Err     error // why the last of them is
}

func (e *SnapshotError) Error() string {
	return fmt.Sprintf("weir: %d entries are not in the snapshot, the last of them because: %v", e.Entries, e.Err)
}

// Unwrap returns why the last entry is missing.
func (e *SnapshotError) Unwrap() error { return e.Err }

// Restore puts the entries of a snapshot into memory, and returns how many. Each keeps
// the instants that it had: what has expired meanwhile is skipped, and the time between
// the two processes counts. An entry is skipped, too, if memory has one for its key, or
// if the key, one of its tags, or everything was set, invalidated or expired since New,
// even while Restore runs. So call it as early as possible, before or while the Guard
// serves calls.
//
// Each record is verified before it is used. If one is torn or damaged, the error
// matches [ErrSnapshot], and the entries before it stay restored. Of a snapshot of
// another version, type, Name or codec, or one from the future by more than a minute,
// nothing is restored. At most MaxSnapshotBytes are read.
//
// A Guard in a fleet gets its values from the Tier, which knows what was invalidated
// while the process was down; Restore returns an error there. After Close it returns
// [ErrClosed].
func (g *Guard[K, V]) Restore(ctx context.Context, r io.Reader, codec fleet.Codec) (int, error) {
	if codec == nil {
		codec = fleet.JSON{}
	}
	if g.closed.Load() {
		return 0, ErrClosed
	}
	if g.fleet != nil {
		return 0, fmt.Errorf("%w: a guard in a fleet takes its values from the Tier", ErrSnapshot)
	}
	in := &snapshotReader{r: bufio.NewReader(r), left: MaxSnapshotBytes}
	head, err := in.head()
	if err != nil {
		return 0, err
	}
	wall := varint.Reader{Rest: head[1:]}
	written := int64(wall.Number(math.MaxInt64)) //nolint:gosec // bounded
	now := time.Now()
	if string(head) != string(g.snapshotHead(codec, written)) {
		return 0, fmt.Errorf("%w: it is of another guard: types, Name or codec differ from %s", ErrSnapshot, g.snapshotOf(codec))
	}
	if ahead := written - now.UnixNano(); ahead > int64(clockStep) {
		return 0, fmt.Errorf("%w: it was written %v in the future", ErrSnapshot, time.Duration(ahead))
	} else if ahead > 0 {
		now = now.Add(time.Duration(ahead)) // no entry is younger than when it was written
	}
	at := stampOf(now, g.clock())
	n := 0
	for seen := uint64(0); ; seen++ {
		if err := context.Cause(ctx); err != nil {
			return n, err
		}
		b, err := in.next()
		if err != nil {
			return n, err
		}
		if b[0] == snapshotEnd {
			end := varint.Reader{Rest: b[1:]}
			if count := end.Number(math.MaxUint64); end.Bad || count != seen || len(end.Rest) > 0 {
				return n, fmt.Errorf("%w: it has %d entries and should have %d", ErrSnapshot, seen, count)
			}
			return n, nil
		}
		restored, err := g.restore(codec, b, at)
		if err != nil {
			return n, err
		}
		if restored {
			n++
			g.trim(1)
		}
	}
}

// snapshotOf describes what a snapshot of g has in its head, for errors.
func (g *Guard[K, V]) snapshotOf(codec fleet.Codec) string {
	return fmt.Sprintf("Guard[%v, %v], Name %q, codec %q", reflect.TypeFor[K](), reflect.TypeFor[V](), g.o.Name, codec.Name())
}

// snapshotHead returns the head of a snapshot that was written at wall.
func (g *Guard[K, V]) snapshotHead(codec fleet.Codec, wall int64) []byte {
	b := binary.AppendUvarint([]byte{snapshotHead}, uint64(wall)) //nolint:gosec // after 1970
	return varint.AppendTexts(b, []string{reflect.TypeFor[K]().String(), reflect.TypeFor[V]().String(), g.o.Name, codec.Name()})
}

// A stamp relates the Guard's clock to the wall clock.
type stamp struct {
	wall int64 // in ns since 1970
	here instant
}

func stampOf(wall time.Time, here instant) stamp { return stamp{wall.UnixNano(), here} }

// endless stands for an instant that is never reached.
const endless = math.MaxInt64

// out returns the instant t on the wall clock.
func (s stamp) out(t instant) uint64 {
	if t >= horizon {
		return endless
	}
	return uint64(max(s.wall+(t-s.here), 0)) //nolint:gosec // not negative
}

// in returns the instant on the Guard's clock.
func (s stamp) in(wall uint64) instant {
	if wall >= endless {
		return horizon
	}
	return min(s.here+(int64(wall)-s.wall), horizon) //nolint:gosec // bounded
}

var errKeyChanged = errors.New("weir: the codec decodes a key as another one")

// encodeEntry returns the record of e.
func (g *Guard[K, V]) encodeEntry(codec fleet.Codec, key K, e *entry[V], at stamp) ([]byte, error) {
	k, err := g.marshal(codec, key)
	if err != nil {
		return nil, err
	}
	// Restored under another key, a value would be the answer to another question. JSON
	// changes strings that are not UTF-8, and omits fields that are not exported.
	var back K
	if err := g.unmarshal(codec, k, &back); err != nil {
		return nil, err
	} else if back != key {
		return nil, errKeyChanged
	}
	v, err := g.marshal(codec, e.value)
	if err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, len(k)+len(v)+64), snapshotEntry)
	// Instants beyond the horizon are restored at it. So that the stale windows after an
	// endless freshness keep their lengths, all three are written so much earlier, but no
	// more than half of the time until the horizon.
	early := instant(0)
	if e.freshUntil >= horizon && e.errorUntil > horizon {
		early = min(e.errorUntil-horizon+1, horizon/2)
	}
	for _, t := range []instant{e.loadedAt, e.freshUntil - early, e.staleUntil - early, e.errorUntil - early} {
		b = binary.AppendUvarint(b, at.out(t))
	}
	b = binary.AppendUvarint(b, uint64(e.weight))
	b = binary.AppendUvarint(b, uint64(e.took))
	b = binary.AppendUvarint(b, e.cost())
	version, tags := "", []string(nil)
	if e.extra != nil {
		version, tags = e.extra.version, tagNames(e.extra.tags)
	}
	b = varint.AppendTexts(varint.AppendText(b, version), tags)
	return varint.AppendText(varint.AppendText(b, string(k)), string(v)), nil
}

// restore puts the entry of a record into memory, and reports whether it did. The
// error is one of the record, or ErrClosed.
func (g *Guard[K, V]) restore(codec fleet.Codec, b []byte, at stamp) (bool, error) {
	r := varint.Reader{Rest: b[1:]}
	e := &entry[V]{}
	for _, t := range []*instant{&e.loadedAt, &e.freshUntil, &e.staleUntil, &e.errorUntil} {
		*t = at.in(r.Number(endless))
	}
	e.weight = uint32(r.Number(math.MaxUint32)) //nolint:gosec // bounded
	e.took = loadTime(r.Number(math.MaxUint16)) //nolint:gosec // bounded
	cost := int(r.Number(limit.MaxUnits))       //nolint:gosec // bounded
	version, tags := r.Text(), r.Texts()
	k, v := r.Bytes(), r.Bytes()
	if r.Bad || len(r.Rest) > 0 || b[0] != snapshotEntry || e.weight == 0 || e.freshUntil > e.staleUntil || e.staleUntil > e.errorUntil {
		return false, fmt.Errorf("%w: a record is malformed", ErrSnapshot)
	}
	now := g.clock()
	if now >= e.errorUntil || e.loadedAt > now || g.o.MaxWeight > 0 && uint64(e.weight) > g.o.MaxWeight {
		return false, nil
	}
	var key K
	if err := errors.Join(g.unmarshal(codec, k, &key), g.unmarshal(codec, v, &e.value)); err != nil {
		return false, fmt.Errorf("%w: an entry cannot be decoded: %w", ErrSnapshot, err)
	}
	if !reflect.ValueOf(&key).Elem().Comparable() || key != key {
		return false, fmt.Errorf("%w: a key is not comparable", ErrSnapshot)
	}
	if version != "" {
		e.extra = &extra{version: version}
	}
	if g.src.Cost != nil {
		e.setCost(cost)
	}
	e.refreshFrom.Store(refreshFrom(&g.o, e))
	stored := false
	err := g.change(func() {
		if _, held := g.store.GetEntryQuietly(key); held || g.clears > 0 || g.changes.haveKey(key) || g.changes.haveTags(tags) {
			return
		}
		e.setTags(g.internLocked(tags), g.seq)
		g.store.Set(key, e)
		stored = true
	})
	return stored, err
}
