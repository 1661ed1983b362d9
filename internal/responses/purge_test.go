package responses_test

import (
	"testing"

	"github.com/weir-go/weir/internal/responses"
)

func TestH12Purge(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	k := key("/a")
	put(t, s, k, variant("german", "de"))
	put(t, s, k, variant("french", "fr"))
	put(t, s, key("/b"), named("b"))
	if n := s.Purge(k, false); n != 2 {
		t.Errorf("Purge = %d; want 2", n)
	}
	wantVariants(t, s, k)
	wantBody(t, s, key("/b"), "b")
	if n := s.Purge(k, false); n != 0 {
		t.Errorf("Purge again = %d; want 0", n)
	}
	if st := s.Stats(); st.Responses != 1 || st.Purged != 2 {
		t.Errorf("Responses, Purged = %d, %d; want 1, 2", st.Responses, st.Purged)
	}
	s.Check(t)
}

func TestH12SoftPurgeMarks(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	k := key("/a")
	r := named("one")
	put(t, s, k, r)
	running := s.Begin(k)
	if n := s.Purge(k, true); n != 1 {
		t.Errorf("soft Purge = %d; want 1", n)
	}
	if got := s.Get(k, asks(nil)); got != r || !r.Marked.Load() {
		t.Errorf("Get = %v after a soft purge; want the response, marked", got)
	}
	if running.Void() {
		t.Error("a soft purge made a write void")
	}
	late := named("late")
	if !running.Put(late) || !late.Marked.Load() {
		t.Error("a fetch that began before the soft purge is not stored and marked")
	}
	after := named("after")
	put(t, s, k, after)
	if after.Marked.Load() {
		t.Error("a fetch that began after the soft purge is marked")
	}
}

func TestH12PurgeTags(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	put(t, s, key("/a"), named("a", "x", "y"))
	put(t, s, key("/b"), named("b", "y", "z"))
	put(t, s, key("/c"), named("c"))
	s.PurgeTags(false, "x", "unknown")
	wantBody(t, s, key("/a"), "")
	wantVariants(t, s, key("/a"))
	if _, ok := s.Vary(key("/a")); ok {
		t.Error("Vary of a purged response = true; want false")
	}
	wantBody(t, s, key("/b"), "b")
	wantBody(t, s, key("/c"), "c")

	if n := s.Stats().Responses; n != 3 {
		t.Errorf("Responses = %d before the purged one is met; want 3", n)
	}
	w := s.Begin(key("/a"))
	if st := s.Stats(); st.Responses != 2 || st.Purged != 1 {
		t.Errorf("Responses, Purged = %d, %d after a write began; want 2, 1", st.Responses, st.Purged)
	}
	if !w.Put(named("a again", "x")) {
		t.Error("Put by a fetch that began after the purge = false; want true")
	}
	wantBody(t, s, key("/a"), "a again")
	s.Check(t)
}

func TestH12SoftPurgeTagsMarks(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	a, b := named("a", "x"), named("b", "y")
	put(t, s, key("/a"), a)
	put(t, s, key("/b"), b)
	running := s.Begin(key("/c"))
	s.PurgeTags(true, "x")
	if got := s.Get(key("/a"), asks(nil)); got != a || !a.Marked.Load() {
		t.Errorf("Get = %v after a soft purge; want the response, marked", got)
	}
	if got := s.Get(key("/b"), asks(nil)); got != b || b.Marked.Load() {
		t.Errorf("Get = %v; want the other response, not marked", got)
	}
	late := named("late", "x")
	if !running.Put(late) || !late.Marked.Load() {
		t.Error("a fetch that began before the soft purge is not stored and marked")
	}
	after := named("after", "x")
	put(t, s, key("/a"), after)
	if s.Get(key("/a"), asks(nil)); after.Marked.Load() {
		t.Error("a fetch that began after the soft purge is marked")
	}
}

// Variants are marked even if no caller got them since the purge.
func TestVariantsAreMarkedBySoftPurgeTags(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	r := named("a", "x")
	put(t, s, key("/a"), r)
	s.PurgeTags(true, "x")
	if all := s.Variants(key("/a")); len(all) != 1 || !r.Marked.Load() {
		t.Errorf("Variants = %v; want the response, marked", all)
	}
}

// A response invalidated while its fetch ran is not stored (E6).
func TestInvalidationBeatsRunningWrites(t *testing.T) {
	k := key("/a")
	for _, tt := range []struct {
		name string
		do   func(s *responses.Store)
		void bool // what Void returns
		put  bool
	}{
		{"nothing", func(s *responses.Store) {}, false, true},
		{"purge", func(s *responses.Store) { s.Purge(k, false) }, true, false},
		{"purge of another", func(s *responses.Store) { s.Purge(key("/b"), false) }, false, true},
		{"clear", func(s *responses.Store) { s.Clear() }, true, false},
		{"its tag", func(s *responses.Store) { s.PurgeTags(false, "new") }, false, false},
		{"another tag", func(s *responses.Store) { s.PurgeTags(false, "other") }, false, true},
		{"its tag, softly", func(s *responses.Store) { s.PurgeTags(true, "new") }, false, true},
		{"purge, then another's put", func(s *responses.Store) {
			s.Purge(k, false)
			s.Begin(k).Put(named("between"))
		}, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := responses.New(responses.Options{Bytes: 1 << 20})
			before, w, after := s.Begin(k), s.Begin(k), s.Begin(k) // three in the list of the key, to remove the middle one
			tt.do(s)
			if got := w.Void(); got != tt.void {
				t.Errorf("Void = %v; want %v", got, tt.void)
			}
			if got := w.Put(named("new", "new")); got != tt.put {
				t.Errorf("Put = %v; want %v", got, tt.put)
			}
			if before.Void() != tt.void || after.Void() != tt.void {
				t.Errorf("Void of the neighboring writes = %v, %v; want %v", before.Void(), after.Void(), tt.void)
			}
			before.Drop()
			after.Drop()
			if got := s.Stats().Overtaken; (got == 1) == tt.put {
				t.Errorf("Overtaken = %d; want it counted", got)
			}
			put(t, s, k, named("later", "new"))
			wantBody(t, s, k, "later")
			s.Check(t)
		})
	}
}

// An invalidation voids Replace like Put, though the response to replace is gone
// anyway.
func TestInvalidationBeatsReplace(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	k := key("/a")
	old := named("old", "x")
	put(t, s, k, old)
	w := s.Begin(k)
	s.PurgeTags(false, "x")
	if w.Replace(old, named("freshened, without the tag")) {
		t.Error("Replace of a response outdated by a tag = true; want false")
	}
	wantBody(t, s, k, "")
}

func TestAWriteEndsOnce(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	k := key("/a")
	w := s.Begin(k)
	w.Drop()
	if w.Put(named("late")) {
		t.Error("Put after Drop = true; want false")
	}
	w = s.Begin(k)
	other := s.Begin(k)
	if !w.Put(named("one")) || w.Put(named("two")) {
		t.Error("the second Put of a write = true; want only the first")
	}
	w.Drop()
	s.Purge(k, false)
	if !other.Void() {
		t.Error("a write was removed when another to its key ended twice")
	}
	other.Drop()
	s.Check(t)
}

func TestClearLeavesNothing(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	for i := range 100 {
		put(t, s, key(path(i)), response(100, "tag", path(i)))
	}
	s.Reserve(1000)
	s.Clear()
	for i := range 100 {
		wantBody(t, s, key(path(i)), "")
	}
	if st := s.Stats(); st.Used != 0 || st.Responses != 0 || st.Reserved != 1000 || st.Purged != 100 {
		t.Errorf("Stats after Clear = %+v; want nothing but 1000 reserved, and 100 purged", st)
	}
	if n := s.Tags(); n != 0 {
		t.Errorf("%d tags after Clear; want 0", n)
	}
	put(t, s, key("/a"), named("a", "tag"))
	wantBody(t, s, key("/a"), "a")
	s.PurgeTags(false, "tag")
	wantBody(t, s, key("/a"), "")
	s.Begin(key("/a")).Drop()
	s.Check(t)
}

// Tags without responses are removed. A fetch that ran while a tag was purged and
// removed cannot store a response with that tag.
func TestTagsAreForgotten(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 64 << 10})
	early := s.Begin(key("/early"))
	earlyToo := s.Begin(key("/early/too"))
	s.PurgeTags(false, "purged", "purged too")
	var between []*responses.Write // several, because a full store may refuse one
	for i := range 20 {
		between = append(between, s.Begin(key(path(-1-i))))
	}
	for i := range 5000 {
		s.Begin(key(path(i))).Put(response(0, path(i)))
		if n := s.Tags(); n > 1024 {
			t.Fatalf("%d tags are known after %d responses in 64 KiB; want at most 1024", n, i)
		}
	}
	if early.Put(named("early", "purged")) {
		t.Error("Put with a tag that was purged and forgotten = true; want false")
	}
	if earlyToo.Put(named("early too", "never heard of")) {
		t.Error("Put with an unknown tag by a fetch that began before tags were removed = true; want false")
	}
	kept := 0
	for _, w := range between {
		if w.Put(named("between", "purged")) {
			kept++
		}
	}
	if kept == 0 {
		t.Error("Put by each of 20 fetches that began after the purge = false; want true")
	}
	s.Check(t)
}

// The same with soft purges: a late response is marked.
func TestSoftlyPurgedTagsAreForgotten(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	early := s.Begin(key("/early"))
	s.PurgeTags(true, "purged")
	between := s.Begin(key("/between"))
	for i := range 2000 {
		put(t, s, key("/a"), response(0, path(i)))
	}
	r, other := named("early", "purged"), named("between", "purged")
	if !early.Put(r) || !r.Marked.Load() {
		t.Error("a fetch that began before the soft purge is not stored and marked")
	}
	if !between.Put(other) || other.Marked.Load() {
		t.Error("a fetch that began after the soft purge is not stored, or marked")
	}
}

// Tags that a response has are not removed with the others.
func TestUsedTagsAreKept(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	put(t, s, key("/kept"), named("kept", "kept"))
	for i := range 2000 {
		put(t, s, key("/a"), response(0, path(i)))
	}
	s.Check(t)
	s.PurgeTags(false, "kept")
	wantBody(t, s, key("/kept"), "")
}

// A purge of unknown tags, while no write runs, leaves nothing behind.
func TestPurgeOfUnknownTagsIsForgotten(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	for i := range 100 {
		s.PurgeTags(i%2 == 0, path(i))
	}
	if n := s.Tags(); n != 0 {
		t.Errorf("%d tags are known; want 0", n)
	}
	w := s.Begin(key("/a"))
	for i := range 5000 {
		s.PurgeTags(i%2 == 0, path(i))
	}
	if n := s.Tags(); n > 1024 {
		t.Errorf("%d tags are known; want at most 1024", n)
	}
	w.Drop()
}
