package responses

import (
	"context"
	"encoding/binary"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/disk"
	"github.com/weir-go/weir/internal/varint"
)

// Unproved is the value of [Stored.Checked] for a response from the disk that the
// fleet has not confirmed yet. It is not changed by [Store.Supersede].
const Unproved = -2

// AttachDisk makes d the second tier of s: it gets what is stored and purged from
// then on, in the same order. It must be called before the first write.
func (s *Store) AttachDisk(d *disk.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk = d
	s.hasDisk.Store(true)
}

// onDisk reports whether the disk may have responses of k. It has none to reads with a
// body: its keys have no digest of a body, and a reader there judges what it finds as
// the response to a GET.
func (k Key) onDisk() bool { return k.Body == "" }

// diskLocked returns the disk if it may have responses of k, else nil. s.mu must be
// held.
func (s *Store) diskLocked(k Key) *disk.Store {
	if !k.onDisk() {
		return nil
	}
	return s.disk
}

// diskKey returns k as a key of the disk.
func (k Key) diskKey() string {
	b := make([]byte, 0, len(k.Scheme)+len(k.Host)+len(k.Target)+2*binary.MaxVarintLen32)
	b = varint.AppendText(varint.AppendText(b, k.Scheme), k.Host)
	return string(append(b, k.Target...))
}

// variantKey tells apart the responses of one key.
func (r *Stored) variantKey() string {
	return string(varint.AppendText(varint.AppendTexts(nil, r.Vary), r.Selected))
}

// A DiskHead is what the disk has of a response besides its body: what the origin
// sent, and what the reader needs to decide again whether it may be used.
type DiskHead struct {
	Rules    uint64 // of the policy that stored it
	Status   int
	Received time.Time
	Age      time.Duration // at that time
	Vary     []string
	Selected string
	Header   http.Header

	Root, Place, Fence uint64 // in a fleet
}

// diskVersion is the version of the format of a DiskHead. One of another version
// counts as absent.
const diskVersion = 1

// appendBinary appends h to b: the version, then numbers as unsigned varints and
// strings preceded by their length.
func (h *DiskHead) appendBinary(b []byte) []byte {
	b = append(b, diskVersion)
	b = binary.LittleEndian.AppendUint64(b, h.Rules)
	for _, n := range []uint64{
		uint64(h.Status), uint64(h.Received.UnixNano()), uint64(h.Age), h.Root, h.Place, h.Fence, //nolint:gosec // not negative
	} {
		b = binary.AppendUvarint(b, n)
	}
	b = varint.AppendText(varint.AppendTexts(b, h.Vary), h.Selected)
	b = binary.AppendUvarint(b, uint64(len(h.Header)))
	for _, name := range slices.Sorted(maps.Keys(h.Header)) {
		b = varint.AppendTexts(varint.AppendText(b, name), h.Header[name])
	}
	return b
}

// UnmarshalBinary parses the head of a record on the disk. An error is ErrWire. As
// with a Wire, the result can be sent as a response.
func (h *DiskHead) UnmarshalBinary(b []byte) error {
	if len(b) < 9 || b[0] != diskVersion {
		return ErrWire
	}
	*h = DiskHead{Rules: binary.LittleEndian.Uint64(b[1:])}
	r := varint.Reader{Rest: b[9:]}
	h.Status = int(r.Number(599))                             //nolint:gosec // bounded
	h.Received = time.Unix(0, int64(r.Number(math.MaxInt64))) //nolint:gosec // bounded
	h.Age = r.Duration()
	h.Root, h.Place, h.Fence = r.Number(math.MaxUint64), r.Number(math.MaxUint64), r.Number(math.MaxUint64)
	h.Vary, h.Selected = r.Texts(), r.Text()
	fields := r.Count()
	h.Header = make(http.Header, min(fields, 1024))
	last := ""
	for range fields {
		name := r.Text()
		values := r.Texts()
		if name <= last || !sendable(name, values) {
			return ErrWire
		}
		last, h.Header[name] = name, values
	}
	if r.Bad || len(r.Rest) > 0 || h.Status < 200 {
		return ErrWire
	}
	return nil
}

// record returns r as a record of the disk; false if it is not for the disk.
func (r *Stored) record(k Key) (disk.Record, bool) {
	out := disk.Record{Key: k.diskKey(), Variant: r.variantKey(), All: len(r.Vary) == 0}
	if r.Rules == 0 || r.Age < 0 || r.Received.UnixNano() < 0 {
		return out, false
	}
	h := DiskHead{
		Rules: r.Rules, Status: r.Status, Received: r.Received, Age: r.Age, Vary: r.Vary, Selected: r.Selected, Header: r.Header,
		Root: r.Root, Place: r.Place, Fence: r.Fence.Load(),
	}
	out.Head, out.Body, out.Expires = h.appendBinary(nil), r.Body, r.useless()
	for _, tag := range r.Tags {
		out.Tags = append(out.Tags, strings.Clone(tag))
	}
	return out, true
}

// useless returns the time, in seconds since 1970, from which r can neither be served
// nor validated; 0 for never.
func (r *Stored) useless() int64 {
	if r.Header.Get("Etag") != "" || r.Header.Get("Last-Modified") != "" {
		return 0
	}
	until := r.Received.Add(r.Lifetime - r.Age)
	windows := max(r.StaleWhileRevalidate, r.StaleIfError, r.StaleOffline)
	if windows > math.MaxInt64-r.Lifetime {
		return 0
	}
	return until.Add(windows).Unix() + 1
}

// toDiskLocked writes rec, the record of r, to the disk, or removes what r replaces
// there if r is not for the disk. s.mu must be held.
func (s *Store) toDiskLocked(rec disk.Record, ok bool) {
	switch {
	case s.disk == nil:
	case ok:
		s.disk.Put(rec)
	case rec.All:
		_, t := s.disk.Purge(rec.Key, false)
		s.waitLocked(t)
	default:
		s.waitLocked(s.disk.Remove(rec.Key, rec.Variant))
	}
}

// waitLocked makes Durable wait for t. s.mu must be held.
func (s *Store) waitLocked(t disk.Ticket) { s.ticket = max(s.ticket, t) }

// Durable waits until all purges so far are durable on the disk, or ctx ends. With an
// error, what they removed may be there again after a restart. Without a disk there
// is nothing to wait for.
func (s *Store) Durable(ctx context.Context) error {
	s.mu.Lock()
	d, t := s.disk, s.ticket
	s.mu.Unlock()
	if d == nil || t == 0 {
		return nil
	}
	return d.Sync(ctx, t)
}

// OnDisk returns the newest response of k on the disk whose head matches, or nil. The
// caller closes the entry.
func (s *Store) OnDisk(d *disk.Store, k Key, match func(h *DiskHead) bool) (*disk.Entry, *DiskHead) {
	if !k.onDisk() {
		return nil, nil
	}
	var h DiskHead
	e := d.Get(k.diskKey(), func(head []byte) bool { return h.UnmarshalBinary(head) == nil && match(&h) })
	if e == nil {
		return nil, nil
	}
	return e, &h
}

// MayBeOnDisk reports whether the disk has a response of k, for any request. It does
// not read the disk.
func (k Key) MayBeOnDisk(d *disk.Store) bool { return k.onDisk() && d.Has(k.diskKey()) }

// Promote ends w by storing r, which comes from the disk. It does not write it there
// again. It reports whether r may be used: it may not if w is void, or one of r's tags
// was invalidated. r may be used even if memory had no room for it.
func (w *Write) Promote(r *Stored) bool {
	w.promotes = true
	w.finish(nil, r)
	return !w.Void() && !r.outdated() && !w.refused
}
