package responses

import (
	"crypto/sha256"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"github.com/weir-go/weir/internal/rfc9111"
)

// A half is half of a digest of what selects a response; the zero half stands for none.
// The other half is in Stored.Selected, which is compared.
type half [sha256.Size / 2]byte

func halfOf(vary []string, selected []byte) (h half) {
	var text [512]byte
	b := text[:0]
	for _, name := range vary {
		b = append(append(b, name...), 0)
	}
	sum := sha256.Sum256(append(b, selected...))
	copy(h[:], sum[:])
	return h
}

// at returns the key of the responses of k that are kept apart under h.
func (k Key) at(h half) Key {
	k.apart = h
	return k
}

// A family are the responses of a URL that are not in its list: those to requests that have
// something that counts. Each is stored under a separate key, so there may be any number
// of them, and the cache evicts those that are used least. The family knows how they are
// found, and all of their keys.
type family struct {
	// Written with Store.mu held, read without.
	ways   atomic.Pointer[[]way]
	fields atomic.Pointer[[]string] // all fields by which responses of the URL vary
	dead   atomic.Bool              // it has no members, and gets no more

	mu      sync.Mutex
	members map[half]uint64 // guarded by mu; with Stored.Place, which is 0 without a fleet
}

// A way is a list of names by which members are selected.
type way struct {
	vary  []string
	kinds rfc9111.Kinds // all that count in vary
	plain rfc9111.Kinds // Stored.plain of the response that is for requests without them
}

// maxWays bounds the lookups of one request. A response that is selected in one way more
// is stored in the list.
const maxWays = 8

// memberSize is what the family costs, if it has no other member.
const memberSize = 704

// add adds a member, and reports false if f is dead.
func (f *family) add(r *Stored) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead.Load() {
		return false
	}
	f.members[r.apart] = r.Place
	return true
}

// halves returns the members at place, or all for place 0. f may be nil.
func (f *family) halves(place uint64) (all []half) {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for h, at := range f.members {
		if place == 0 || at == place {
			all = append(all, h)
		}
	}
	return all
}

// know adds the names of a Vary to the fields. Store.mu must be held.
func (f *family) know(vary []string) {
	had := *f.fields.Load()
	fields := had
	for _, name := range vary {
		if isField(name) && !slices.Contains(fields, name) {
			fields = append(slices.Clip(fields), strings.Clone(name))
		}
	}
	if len(fields) > len(had) {
		f.fields.Store(&fields)
	}
}

// takes adds a way, unless there are too many. Store.mu must be held.
func (f *family) takes(vary []string) bool {
	ways := *f.ways.Load()
	if slices.ContainsFunc(ways, func(w way) bool { return slices.Equal(w.vary, vary) }) {
		return true
	}
	if len(ways) >= maxWays {
		return false
	}
	w := way{kinds: rfc9111.CountedKinds(vary)}
	for _, name := range vary {
		w.vary = append(w.vary, strings.Clone(name)) // it may be a part of a response's text
	}
	if len(vary) == 1 {
		w.plain = w.kinds
	}
	ways = append(slices.Clip(ways), w)
	f.ways.Store(&ways)
	return true
}

// family returns the family of k, or nil.
func (sp *space) family(k Key) *family {
	if sp.families.n.Load() == 0 {
		return nil
	}
	if f, ok := sp.families.byKey.Load(k); ok {
		return f.(*family)
	}
	return nil
}

// families are the families of a space, by the keys of their lists.
type families struct {
	byKey sync.Map // Key to *family
	n     atomic.Int64
}

// join returns the family of k, a new one if there is none. Store.mu must be held.
func (sp *space) join(k Key) *family {
	if f := sp.family(k); f != nil {
		return f
	}
	f := sp.found(k, &[]way{}, &[]string{})
	for _, v := range sp.peek(k).all {
		f.know(v.Vary)
	}
	return f
}

func (sp *space) found(k Key, ways *[]way, fields *[]string) *family {
	f := &family{members: map[half]uint64{}}
	f.ways.Store(ways)
	f.fields.Store(fields)
	sp.families.n.Add(1)
	sp.families.byKey.Store(k, f)
	return f
}

// enter adds a member to f, or to a family that goes on for it if its last member has just
// been evicted. The cache must be storing the member. Store.mu must be held.
func (sp *space) enter(k Key, f *family, r *Stored) *family {
	if !f.add(r) {
		f = sp.found(k, f.ways.Load(), f.fields.Load())
		f.add(r)
	}
	return f
}

// leave removes a member that the cache no longer has. The cache calls it while it removes
// the entry, and enter while it stores it, so neither overtakes the other.
func (sp *space) leave(k Key) {
	whole := k.at(half{})
	if f := sp.family(whole); f != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.members, k.apart)
		sp.endIfEmpty(whole, f)
	}
}

// endIfEmpty ends a family that has no members. f.mu must be held.
func (sp *space) endIfEmpty(k Key, f *family) {
	if len(f.members) == 0 && !f.dead.Load() {
		f.dead.Store(true)
		sp.families.byKey.CompareAndDelete(k, f)
		sp.families.n.Add(-1)
	}
}

// settle ends the family of k if it has no members, and otherwise lets the list know it.
// Store.mu must be held.
func (sp *space) settle(k Key) {
	f := sp.family(k)
	if f == nil {
		return
	}
	f.mu.Lock()
	sp.endIfEmpty(k, f)
	f.mu.Unlock()
	if f.dead.Load() {
		return
	}
	sp.cache.Compute(k, func(had *list, found bool) (*list, otter.ComputeOp) {
		if !found || had.family == f {
			return nil, otter.CancelOp
		}
		has := *had
		has.family = f
		return &has, otter.WriteOp
	})
}

// newest returns the response of k that was stored last, of those with this proof that q
// selects and no tag has outdated, or nil. With parts it may be incomplete. It allocates
// nothing for values of usual length.
func (sp *space) newest(k Key, proof string, q *rfc9111.Request, parts bool) *Stored {
	l, ok := sp.cache.GetIfPresent(k)
	if !ok {
		l = nothing
	}
	f := l.family
	if f == nil && !ok || f != nil && f.dead.Load() {
		f = sp.family(k)
	}
	if f == nil {
		return l.marked(l.find(proof, q, parts, l.union, 0))
	}
	apart, skip := sp.member(f, k, proof, q, parts)
	if r := l.find(proof, q, parts, *f.fields.Load(), skip); r != nil && (apart == nil || r.order > apart.order) {
		return l.marked(r)
	}
	return apart
}

// member returns the newest member of f that newest may return. A response in the list that
// is for requests without any of the kinds skip is not for q.
func (sp *space) member(f *family, k Key, proof string, q *rfc9111.Request, parts bool) (found *Stored, skip rfc9111.Kinds) {
	var text [512]byte
	fields := *f.fields.Load()
	for _, w := range *f.ways.Load() {
		if q.None(w.kinds) {
			continue
		}
		selected, counts := rfc9111.AppendCounted(text[:0], w.vary, q)
		if !counts {
			continue
		}
		skip = w.plain
		l, ok := sp.cache.GetIfPresent(k.at(halfOf(w.vary, selected)))
		if !ok {
			continue
		}
		for _, r := range l.all {
			if (parts || r.Partial == nil) && r.Proof == proof && r.Selected == string(selected) && slices.Equal(r.Vary, w.vary) &&
				!r.outdated() && r.fits(fields, q) {
				if l.marked(r); found == nil || r.order > found.order {
					found = r
				}
				break
			}
		}
	}
	return found, skip
}

// at returns the responses of k, of the members only those at place, if that is not 0.
func (sp *space) at(k Key, place uint64) []*Stored {
	all := slices.Clone(sp.peek(k).all)
	for _, h := range sp.family(k).halves(place) {
		all = append(all, sp.peek(k.at(h)).all...)
	}
	return all
}

// keepAllLocked is keepLocked for all responses of k.
func (s *Store) keepAllLocked(k Key, keep func(*Stored) bool) {
	s.keepLocked(k, keep)
	for _, h := range s.space.Load().family(k).halves(0) {
		s.keepLocked(k.at(h), keep)
	}
}
