package responses_test

import (
	"net/http"
	"strings"
	"testing"
	"unsafe"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

func TestGetReturnsWhatWasPut(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	k := key("/a")
	if got := s.Get(k, asks(nil)); got != nil {
		t.Errorf("Get of an empty store = %v; want nil", got)
	}
	r := named("one")
	put(t, s, k, r)
	if got := s.Get(k, asks(nil)); got != r {
		t.Errorf("Get = %p; want the stored %p", got, r)
	}
	if st := s.Stats(); st.Responses != 1 || st.Stored != 1 || st.Used <= responses.Overhead {
		t.Errorf("Stats = %+v; want 1 response, 1 stored, more than %d used", st, responses.Overhead)
	}
	put(t, s, k, named("two"))
	wantBody(t, s, k, "two")
	if st := s.Stats(); st.Responses != 1 || st.Stored != 2 {
		t.Errorf("Responses, Stored = %d, %d after the second; want 1, 2", st.Responses, st.Stored)
	}
}

// The key is compared in full: the scheme and the boundaries between its parts
// count (H9).
func TestH9KeysAreComparedWhole(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	keys := []responses.Key{
		{Scheme: "http", Host: "a", Target: "/b"},
		{Scheme: "https", Host: "a", Target: "/b"},
		{Scheme: "http", Host: "a/b", Target: ""},
		{Scheme: "http", Host: "", Target: "a/b"},
		{Scheme: "httpa", Host: "", Target: "/b"},
		{Scheme: "http", Host: "a", Target: "/b?"},
		{Scheme: "http", Host: "A", Target: "/b"},
		{Scheme: "http", Host: "a:80", Target: "/b"},
		{Scheme: "http", Host: "a", Target: "/%62"},
	}
	for i, k := range keys {
		put(t, s, k, named(path(i)))
	}
	for i, k := range keys {
		wantBody(t, s, k, path(i))
	}
	if n := s.Purge(keys[0], false); n != 1 {
		t.Errorf("Purge(%v) = %d; want 1", keys[0], n)
	}
	for i, k := range keys[1:] {
		wantBody(t, s, k, path(i+1))
	}
}

func TestGetAllocatesNothing(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	k, h := key("/a"), http.Header{"Accept": {"*/*"}}
	put(t, s, k, named("one", "tag", "other"))
	missing := key("/b")
	hit := 0
	if n := testing.AllocsPerRun(2000, func() {
		if s.Get(k, asks(h)) != nil {
			hit++
		}
		if s.Get(missing, asks(h)) != nil {
			hit = 0
		}
	}); n != 0 {
		t.Errorf("Get allocates %v times; want 0", n)
	}
	if hit != 2001 {
		t.Errorf("%d hits; want 2001", hit)
	}
}

// A response without Vary matches every request, so it replaces all variants. One
// with Vary replaces the one for the same requests.
func TestPutReplacesWhatItStandsFor(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	k := key("/a")
	put(t, s, k, variant("german", "de"))
	put(t, s, k, variant("french", "fr"))
	wantVariants(t, s, k, "french", "german")
	put(t, s, k, variant("german again", "de"))
	wantVariants(t, s, k, "german again", "french")
	other := variant("by encoding", "de")
	other.Vary = []string{"Accept-Encoding"}
	put(t, s, k, other)
	wantVariants(t, s, k, "by encoding", "german again", "french")
	if names, ok := s.Vary(k); !ok || len(names) != 1 || names[0] != "Accept-Encoding" {
		t.Errorf("Vary = %q, %v; want that of the newest, Accept-Encoding", names, ok)
	}
	put(t, s, k, named("for all"))
	wantVariants(t, s, k, "for all")
	if names, ok := s.Vary(k); !ok || len(names) != 0 {
		t.Errorf("Vary = %q, %v; want none, true", names, ok)
	}
	if names, ok := s.Vary(key("/b")); ok {
		t.Errorf("Vary of a key without a response = %q, true; want false", names)
	}
}

// Parts are not stored beside the whole response, which another call may have stored after they
// were looked up. The whole response replaces parts.
func TestH29_PartsAreNotStoredBesideTheWhole(t *testing.T) {
	s, k := responses.New(responses.Options{Bytes: 1 << 20}), key("/a")
	parts := func() *responses.Stored {
		r := response(0)
		r.Partial = &responses.Partial{Parts: rfc9111.Parts{{First: 1, Bytes: []byte("b")}}, Total: 3}
		return r
	}
	put(t, s, k, parts())
	late := s.Begin(k)
	put(t, s, k, named("abc"))
	if late.Put(parts()) {
		t.Error("parts are stored beside the whole response")
	}
	wantBody(t, s, k, "abc")
	if n := s.Stats().Responses; n != 1 {
		t.Errorf("%d responses are stored; want 1", n)
	}
}

func TestVariantsAreBounded(t *testing.T) {
	for _, tt := range []struct{ limit, want int }{{0, 32}, {3, 3}, {1, 1}} {
		s := responses.New(responses.Options{Bytes: 1 << 20, Variants: tt.limit})
		for i := range 40 {
			put(t, s, key("/a"), variant(path(i), path(i)))
		}
		var want []string
		for i := range tt.want {
			want = append(want, path(39-i))
		}
		wantVariants(t, s, key("/a"), want...)
		if n := s.Stats().Responses; n != tt.want {
			t.Errorf("Variants %d: Responses = %d; want %d", tt.limit, n, tt.want)
		}
	}
}

// One key takes at most half of the bound, for any number of variants.
func TestVariantsOfAKeyHaveAtMostHalf(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 100_000})
	for i := range 10 {
		r := variant(path(i), path(i))
		r.Body = make([]byte, 14_000)
		put(t, s, key("/a"), r)
		if used := s.Stats().Used; used > 50_000 {
			t.Fatalf("Used = %d after %d variants of one key; want at most 50000", used, i+1)
		}
	}
	if n := len(s.Variants(key("/a"))); n != 3 {
		t.Errorf("%d variants of 14 KB in half of 100 KB; want 3", n)
	}
}

func TestReplaceNeedsTheOldOne(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	k := key("/a")
	first := named("first")
	put(t, s, k, first)
	freshened := named("freshened")
	if !s.Begin(k).Replace(first, freshened) {
		t.Error("Replace of a stored response = false; want true")
	}
	wantBody(t, s, k, "freshened")
	if s.Begin(k).Replace(first, named("late")) {
		t.Error("Replace of a replaced response = true; want false")
	}
	wantBody(t, s, k, "freshened")
	s.Remove(k, freshened)
	if s.Begin(k).Replace(freshened, named("late")) {
		t.Error("Replace of a removed response = true; want false")
	}
	if s.Begin(k).Replace(nil, named("late")) {
		t.Error("Replace of nil = true; want false")
	}
	wantBody(t, s, k, "")
}

// Replacing one variant leaves the others stored.
func TestReplaceOneVariant(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	k := key("/a")
	german := variant("german", "de")
	put(t, s, k, german)
	put(t, s, k, variant("french", "fr"))
	if !s.Begin(k).Replace(german, variant("austrian", "de-AT")) {
		t.Error("Replace = false; want true")
	}
	wantVariants(t, s, k, "austrian", "french")
}

func TestRemove(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	k := key("/a")
	german := variant("german", "de")
	put(t, s, k, german)
	put(t, s, k, variant("french", "fr"))
	s.Remove(k, named("french"))
	wantVariants(t, s, k, "french", "german")
	s.Remove(k, german)
	s.Remove(k, german)
	wantVariants(t, s, k, "french")
	s.Remove(key("/b"), german)
}

// A stored response has its own copies of strings, so a short value does not pin
// the buffer that it was cut from.
func TestPutCopiesTexts(t *testing.T) {
	buffer := strings.Repeat("Accept-Language de http example.org /path tag ETag \"1\" ", 100)
	within := func(s string) bool {
		p, b := uintptr(unsafe.Pointer(unsafe.StringData(s))), uintptr(unsafe.Pointer(unsafe.StringData(buffer)))
		return p >= b && p < b+uintptr(len(buffer))
	}
	cut := func(s string) string {
		i := strings.Index(buffer, s)
		return buffer[i : i+len(s)]
	}
	if !within(cut("tag")) {
		t.Fatal("the parts are not cut from the buffer")
	}
	s := responses.New(responses.Options{Bytes: 1 << 20})
	k := responses.Key{Scheme: cut("http"), Host: cut("example.org"), Target: cut("/path")}
	r := named("x")
	r.Header = http.Header{cut("ETag"): {cut(`"1"`)}, "Empty": nil}
	r.Vary, r.Selected, r.Tags = []string{cut("Accept-Language")}, cut("de"), []string{cut("tag")}
	s.PurgeTags(false, cut("tag"))
	put(t, s, k, r)

	fields := map[string][]string(r.Header) // as stored, not in the form net/http would write
	if got := fields["ETag"]; len(got) != 1 || got[0] != `"1"` || len(r.Header) != 2 {
		t.Errorf("Header = %q; want the original fields", r.Header)
	}
	texts := append([]string{r.Selected}, r.Tags...)
	texts = append(texts, r.Vary...)
	for name, vs := range r.Header {
		texts = append(append(texts, name), vs...)
	}
	for stored := range s.Keys() {
		if stored != k {
			t.Errorf("stored key = %v; want %v", stored, k)
		}
		texts = append(texts, stored.Scheme, stored.Host, stored.Target)
	}
	for _, text := range texts {
		if within(text) {
			t.Errorf("%q still points into the original buffer", text)
		}
	}
	if len(texts) != 9 {
		t.Errorf("checked %d strings; want 9", len(texts))
	}
}
