package responses_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// forTenant returns a response to a request of that tenant, with room for many.
func forTenant(id string, room uint16) (*responses.Stored, http.Header) {
	h := http.Header{"X-Tenant": {id}}
	r := named(id)
	r.Vary, r.Room = []string{"X-Tenant"}, room
	r.Selected = rfc9111.Selecting(r.Vary, asks(h))
	return r, h
}

// With many variants, each request finds its own, without an allocation; the bound is the
// one that the last response asks for.
func TestH10ManyVariants(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 16 << 20})
	k := key("/a")
	const most = 300
	for i := range most + 50 {
		r, _ := forTenant(fmt.Sprint(i), most)
		put(t, s, k, r)
	}
	check := func(when string, from, to int) {
		t.Helper()
		for i := range most + 50 {
			_, h := forTenant(fmt.Sprint(i), 0)
			want, got := "", ""
			if i >= from && i < to {
				want = fmt.Sprint(i)
			}
			if r := s.Get(k, asks(h)); r != nil {
				got = string(r.Body)
			}
			if got != want {
				t.Errorf("%s: tenant %d gets %q; want %q", when, i, got, want)
			}
		}
	}
	check("full", 50, most+50)
	_, h := forTenant("200", 0)
	if n := testing.AllocsPerRun(100, func() { s.Get(k, asks(h)) }); n != 0 {
		t.Errorf("%v allocations; want 0", n)
	}
	long, h := forTenant(strings.Repeat("x", 2000), most)
	put(t, s, k, long)
	if s.Get(k, asks(h)) != long {
		t.Error("a long value does not find its variant")
	}
	check("one more", 51, most+50)
	if s.Get(k, asks(http.Header{"X-Tenant": {"200", "1"}})) != nil || s.Get(k, asks(nil)) != nil {
		t.Error("a value that is not stored finds a variant")
	}
	// Variants with other names in Vary.
	other := named("other")
	other.Vary, other.Room = []string{"X-Tenant", "X-Other"}, most
	h = http.Header{"X-Tenant": {"200"}, "X-Other": {"1"}}
	other.Selected = rfc9111.Selecting(other.Vary, asks(h))
	put(t, s, k, other)
	if got := s.Get(k, asks(h)); got != other {
		t.Errorf("Get = %v; want the newest that matches", got)
	}
	s.Remove(k, other)
	check("removed", 51, most+50)   // the long one had to go for other, since it was found least often
	last, _ := forTenant("349", 20) // replaces one, and leaves room for 19 others
	put(t, s, k, last)
	if n := len(s.Variants(k)); n != 20 {
		t.Errorf("%d variants after one with room for 20", n)
	}
	check("fewer", most+50-20, most+50)
	wantBound(t, s)
	if n := s.Purge(k, false); n != 20 || s.Stats().Used != 0 {
		t.Errorf("Purge = %d, %d bytes used after it; want 20 and 0", n, s.Stats().Used)
	}
}

// A client that sends many values evicts its own responses, not those that are used, and
// a response that is no longer used goes in the end (H9).
func TestH9_OneClientEvictsItsOwnVariants(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 16 << 20})
	k := key("/a")
	const most, tenants = 32, 8
	used := func(id string) bool {
		_, h := forTenant(id, 0)
		return s.Get(k, asks(h)) != nil
	}
	asked, missed := 0, 0
	for i := range 1000 {
		r, _ := forTenant(fmt.Sprint("random ", i), most)
		put(t, s, k, r)
		for range 10 {
			used(fmt.Sprint("random ", i)) // many times, but only until the next one
		}
		if i%4 > 0 {
			continue
		}
		for j := range tenants {
			asked++
			if id := fmt.Sprint("tenant ", j); !used(id) {
				missed++
				r, _ := forTenant(id, most)
				put(t, s, k, r)
			}
		}
	}
	if missed > 3*tenants {
		t.Errorf("%d of %d requests of tenants miss; want hits while another client sends 1000 values", missed, asked)
	}
	if n := len(s.Variants(k)); n != most {
		t.Errorf("%d variants; want %d", n, most)
	}
	wantBound(t, s)
	// The tenants leave, and others come: the old ones make room for them.
	for i := range 40 * most {
		id := fmt.Sprint("new ", i%(most-4))
		if !used(id) {
			r, _ := forTenant(id, most)
			put(t, s, k, r)
		}
	}
	for i := range 20 * most { // what was popular is forgotten as values come once
		r, _ := forTenant(fmt.Sprint("once ", i), most)
		put(t, s, k, r)
		for j := range 4 {
			used(fmt.Sprint("new ", j))
		}
	}
	for j := range tenants {
		if used(fmt.Sprint("tenant ", j)) {
			t.Errorf("tenant %d is still stored, long after its last request", j)
		}
	}
}

// BenchmarkGetOfManyVariants gets the variant that was stored first, which is found last.
func BenchmarkGetOfManyVariants(b *testing.B) {
	for _, n := range []int{1, 15, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := responses.New(responses.Options{Bytes: 64 << 20})
			for i := range n {
				r, _ := forTenant(fmt.Sprint(i), 1000)
				s.Begin(key("/a")).Put(r)
			}
			_, h := forTenant("0", 0)
			b.ReportAllocs()
			for b.Loop() {
				if s.Get(key("/a"), asks(h)) == nil {
					b.Fatal("nil")
				}
			}
		})
	}
}
