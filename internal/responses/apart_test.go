package responses_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// forClient returns a response that is only for requests with this value of a field that
// nothing is known about, and the fields of such a request. "" is a request without it.
func forClient(id string, vary ...string) (*responses.Stored, http.Header) {
	h := http.Header{}
	if id != "" {
		h.Set("X-Client", id)
	}
	r := named(id)
	r.Vary = append(slices.Clone(vary), "counts:u")
	r.Asked = asks(h)
	r.Selected = rfc9111.Selecting(r.Vary, r.Asked)
	return r, h
}

func gets(s *responses.Store, k responses.Key, h http.Header) string {
	if r := s.Get(k, asks(h)); r != nil {
		return string(r.Body)
	}
	return "nothing"
}

// Any number of clients have their own responses; each is found without an allocation,
// and one purge removes all.
func TestH2_TenThousandClients(t *testing.T) {
	clients := 10_000 / histories.Part()
	s := responses.New(responses.Options{Bytes: 64 << 20, Variants: 4})
	k := key("/a")
	for i := range clients {
		r, _ := forClient(fmt.Sprint(i))
		put(t, s, k, r)
	}
	plain, none := forClient("")
	put(t, s, k, plain)
	for i := range clients {
		_, h := forClient(fmt.Sprint(i))
		if got := gets(s, k, h); got != fmt.Sprint(i) {
			t.Fatalf("client %d gets %q", i, got)
		}
	}
	if got := gets(s, k, none); got != "" {
		t.Errorf("a client without the field gets %q", got)
	}
	_, h := forClient("another")
	if got := gets(s, k, h); got != "nothing" {
		t.Errorf("another client gets %q", got)
	}
	_, h = forClient("77")
	q := asks(h)
	if n := testing.AllocsPerRun(100, func() { s.Get(k, q) }); n != 0 {
		t.Errorf("%v allocations; want 0", n)
	}
	if all := s.Variants(k); len(all) != clients+1 || all[0] != plain {
		t.Errorf("Variants has %d; want %d, the newest first", len(all), clients+1)
	}
	if n := s.Purge(k, true); n != clients+1 {
		t.Errorf("a soft Purge = %d; want %d", n, clients+1)
	}
	if r := s.Get(k, q); r == nil || !r.Marked.Load() {
		t.Error("a soft purge does not mark what is kept apart")
	}
	if n := s.Purge(k, false); n != clients+1 {
		t.Errorf("Purge = %d; want %d", n, clients+1)
	}
	if st := s.Stats(); st.Used != 0 || st.Responses != 0 || s.Get(k, q) != nil {
		t.Errorf("after a purge: %+v", st)
	}
	if n := s.Families(); n != 0 {
		t.Errorf("%d families are left; want 0", n)
	}
}

// Made-up values take room from each other, and not from what is used.
func TestH2_MadeUpValuesPushNothingOut(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 2 << 20})
	const used = 300
	read := func(i int) (found int) {
		_, h := forClient(fmt.Sprint(i))
		for k, want := range map[responses.Key]string{key("/a"): fmt.Sprint(i), key(path(i)): "page"} {
			if gets(s, k, h) == want {
				found++
			}
		}
		return found
	}
	for i := range used {
		r, _ := forClient(fmt.Sprint(i))
		put(t, s, key("/a"), r)
		put(t, s, key(path(i)), named("page"))
	}
	for i := range 50_000 / histories.Part() {
		r, _ := forClient(fmt.Sprint("made up ", i))
		s.Begin(key("/a")).Put(r)
		wantBound(t, s)
		for j := range 4 {
			read((4*i + j) % used)
		}
	}
	found := 0
	for i := range used {
		found += read(i)
	}
	if found < 2*used*95/100 {
		t.Errorf("%d of %d are left; want 95 %%", found, 2*used)
	}
	s.Clear()
	if n := s.Families(); n != 0 {
		t.Errorf("%d families are left; want 0", n)
	}
}

// Random stores, purges and removals find what a list of all responses finds, whatever
// their responses vary by.
func TestH2_ResponsesKeptApartAreFoundLikeOthers(t *testing.T) {
	for seed := range histories.Seeds(t, 300, 20_000) {
		r := rand.New(rand.NewPCG(seed, 40))
		s := responses.New(responses.Options{Bytes: 8 << 20, Variants: 1000})
		var all []known // newest first
		var ever []string
		k, n := key("/a"), 0
		draw := func() http.Header {
			h := http.Header{}
			for _, name := range []string{"X-Client", "X-Other", "Accept-Language", "Origin"} {
				if v := r.IntN(3); v > 0 {
					h.Set(name, strings.Repeat("v", v))
				}
			}
			return h
		}
		var steps []string
		for range 40 {
			h := draw()
			q := asks(h)
			switch r.IntN(8) {
			case 0:
				soft := r.IntN(2) == 0
				s.Purge(k, soft)
				if !soft {
					all = nil
				}
				steps = append(steps, fmt.Sprint("purge, soft ", soft))
			case 1:
				if got := s.Get(k, q); got != nil {
					s.Remove(k, got)
					all = slices.DeleteFunc(all, func(v known) bool { return v.Stored == got })
					steps = append(steps, fmt.Sprintf("remove %s", got.Body))
				}
			default:
				n++
				v := named(fmt.Sprint(n))
				v.Vary = [][]string{nil, {"counts:u"}, {"counts:ou"}, {"Accept-Language", "counts:u"}, {"Accept-Language"}, {"counts:o"}}[r.IntN(6)]
				v.Asked, v.Names = q, responses.NamesOf(h)
				v.Selected = rfc9111.Selecting(v.Vary, q)
				w := s.Begin(k)
				var stored bool
				if old := s.Get(k, q); old != nil && r.IntN(4) == 0 {
					all = slices.DeleteFunc(all, func(v known) bool { return v.Stored == old })
					stored = w.Replace(old, v)
				} else {
					stored = w.Put(v)
				}
				if !stored {
					t.Fatalf("seed %d: %q: Put = false", seed, steps)
				}
				all = slices.DeleteFunc(all, func(o known) bool {
					return len(v.Vary) == 0 || slices.Equal(o.Vary, v.Vary) && o.Selected == v.Selected
				})
				all = append([]known{{v, h}}, all...)
				ever = append(ever, v.Vary...)
				steps = append(steps, fmt.Sprintf("%d for %v by %q", n, h, v.Vary))
			}
			for range 6 {
				h := draw()
				q := asks(h)
				var now []string
				for _, v := range all {
					now = append(now, v.Vary...)
				}
				// What other responses varied by that are gone may still be compared.
				find := func(names []string) string {
					for _, v := range all {
						if rfc9111.Matches(v.Vary, v.Selected, q) && v.alike(names, h) {
							return string(v.Body)
						}
					}
					return "nothing"
				}
				if got := gets(s, k, h); got != find(now) && got != find(ever) {
					t.Fatalf("seed %d: %q: %v gets %s; want %s", seed, steps, h, got, find(now))
				}
			}
		}
	}
}

// A known response is in the model of a store, with the fields of its request.
type known struct {
	*responses.Stored
	fields http.Header
}

// alike reports whether h is without the fields among names by which v does not vary, as
// the request of v was.
func (v known) alike(names []string, h http.Header) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		return !strings.Contains(name, ":") && !slices.Contains(v.Vary, name) && (h.Get(name) != "" || v.fields.Get(name) != "")
	})
}
