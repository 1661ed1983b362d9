// Package oncetest is the suite that every once.Store passes: what its operations promise, and
// random histories of calls whose gateways end at any step.
//
//	oncetest.Run(t, 1000, func(t testing.TB) oncetest.Backend { ... })
package oncetest

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/once"
)

// A Backend is a place with records, and the ways to it.
type Backend struct {
	// Open opens a Store with the contents of the Backend and these bounds, as a new process does.
	Open func(bytes int64, keys int) once.Store
	// Gone lets the process of a Store look dead, as after a crash. nil means that there is
	// nothing to do.
	Gone func(once.Store)
	// Shared: several Stores can be open at a time.
	Shared bool
	// Pass lets time pass, for records that expire. nil means time.Sleep.
	Pass func(time.Duration)
}

const (
	bytesBound = 64 << 20
	keysBound  = 1000
)

// Run runs the suite, with as many histories as seeds. fresh returns an empty Backend.
func Run(t *testing.T, seeds uint64, fresh func(t testing.TB) Backend) {
	t.Run("Operations", func(t *testing.T) { operations(t, fresh(t)) })
	t.Run("Bounds", func(t *testing.T) { bounds(t, fresh(t)) })
	t.Run("Expiry", func(t *testing.T) { expiry(t, fresh(t)) })
	t.Run("OneOfManyWins", func(t *testing.T) { oneWins(t, fresh(t)) })
	t.Run("Histories", func(t *testing.T) {
		for seed := range seeds {
			if h := newHistory(t, seed, fresh(t)); !h.run() {
				t.Fatalf("seed %d:\n%s", seed, h.log.String())
			}
		}
	})
}

func record(s once.State, keep time.Duration) once.Record {
	now := time.Now()
	return once.Record{
		State: s, Route: "pay", Call: "POST /payments", Fingerprint: once.Sum("f"), Credentials: once.Sum("c"), Principal: once.Sum("p"),
		Owner: "o", Since: now, Expires: now.Add(keep),
	}
}

func put(t testing.TB, s once.Store, key string, r once.Record, old uint64) uint64 {
	t.Helper()
	v, err := s.Put(t.Context(), once.Sum(key), r, old)
	if err != nil || v == 0 || v == old {
		t.Fatalf("Put(%s, %v, %d) = %d, %v; want a new version", key, r.State, old, v, err)
	}
	return v
}

func operations(t *testing.T, b Backend) {
	s := b.Open(bytesBound, keysBound)
	id := once.Sum("a")
	if got, err := s.Get(t.Context(), id); err != nil || got.Version != 0 || got.ID != id {
		t.Errorf("Get without a record = %v, %v; want version 0", got, err)
	}
	if _, err := s.Put(t.Context(), id, record(once.Claimed, time.Hour), 7); !errors.Is(err, once.ErrConflict) {
		t.Errorf("Put over a version that is not there = %v; want ErrConflict", err)
	}
	claim := put(t, s, "a", record(once.Claimed, time.Hour), 0)
	for _, old := range []uint64{0, claim + 1} {
		if _, err := s.Put(t.Context(), id, record(once.Claimed, time.Hour), old); !errors.Is(err, once.ErrConflict) {
			t.Errorf("Put over version %d = %v; want ErrConflict", old, err)
		}
		if err := s.Delete(t.Context(), id, old); !errors.Is(err, once.ErrConflict) {
			t.Errorf("Delete of version %d = %v; want ErrConflict", old, err)
		}
	}
	if got, err := s.Get(t.Context(), id); err != nil || got.Version != claim || got.State != once.Claimed || got.Elsewhere {
		t.Errorf("Get = %+v, %v; want the own claim", got, err)
	}
	r := record(once.Answered, time.Hour)
	r.Status, r.Header, r.Trailer, r.Body = 201, http.Header{"A": {"b", "\xff\x00"}}, http.Header{"T": {"u"}}, []byte("paid\x00\xff")
	answer := put(t, s, "a", r, claim)
	got, err := s.Get(t.Context(), id)
	if err != nil || got.Version != answer || got.Status != 201 || !bytes.Equal(got.Body, r.Body) || !reflect.DeepEqual(got.Header, r.Header) || !reflect.DeepEqual(got.Trailer, r.Trailer) ||
		got.Fingerprint != r.Fingerprint || got.Credentials != r.Credentials || got.Principal != r.Principal || got.Route != r.Route || got.Call != r.Call || !got.Since.Equal(r.Since) {
		t.Errorf("Get = %+v, %v; want %+v", got, err, r)
	}
	if left := time.Until(got.Expires); left < 50*time.Minute || left > time.Hour+time.Minute {
		t.Errorf("it is kept for %v; want an hour", left)
	}
	if _, err := s.Put(t.Context(), id, r, claim); !errors.Is(err, once.ErrConflict) {
		t.Errorf("Put over the claim, which a response has replaced = %v; want ErrConflict", err)
	}
	doubt := record(once.Unknown, time.Hour)
	doubt.Reason, doubt.Body = "broken", []byte("x")
	put(t, s, "b", doubt, 0)
	put(t, s, "c", record(once.Claimed, time.Hour), 0)
	put(t, s, "d", record(once.Done, time.Hour), 0)
	all, err := s.List(t.Context(), 10, once.Claimed, once.Unknown)
	if err != nil || len(all) != 2 {
		t.Fatalf("List = %v, %v; want two", all, err)
	}
	for _, one := range all {
		if one.Body != nil || one.Version == 0 || one.ID != once.Sum("b") && one.ID != once.Sum("c") {
			t.Errorf("List has %+v", one)
		}
		if one.State == once.Unknown && one.Reason != "broken" {
			t.Errorf("List has the reason %q; want broken", one.Reason)
		}
	}
	if all, err = s.List(t.Context(), 1, once.Claimed, once.Unknown); err != nil || len(all) != 1 {
		t.Errorf("List of one = %v, %v", all, err)
	}
	if err := s.Delete(t.Context(), id, answer); err != nil {
		t.Errorf("Delete = %v", err)
	}
	if got, err := s.Get(t.Context(), id); err != nil || got.Version != 0 {
		t.Errorf("Get of what was deleted = %v, %v", got, err)
	}
	if again := put(t, s, "a", record(once.Claimed, time.Hour), 0); again == claim || again == answer {
		t.Error("a version was used twice: a late writer of the first could replace the second")
	}
	if u := s.Usage(); u.Keys != 4 || u.Bytes <= 0 || u.MaxKeys != keysBound || u.MaxBytes != bytesBound {
		t.Errorf("Usage = %+v; want 4 keys", u)
	}
}

// A claim reserves the room of its answer, and one principal can use a quarter.
func bounds(t *testing.T, b Backend) {
	s := b.Open(bytesBound, 8)
	fill := func(key, principal string, reserve int64) error {
		r := record(once.Claimed, time.Hour)
		r.Principal, r.Reserve = once.Sum(principal), reserve
		_, err := s.Put(t.Context(), once.Sum(key), r, 0)
		return err
	}
	for i, want := range []error{nil, nil, once.ErrShare} {
		if err := fill(fmt.Sprint("one", i), "one", 0); !errors.Is(err, want) {
			t.Errorf("key %d of a principal = %v; want %v", i, err, want)
		}
	}
	if err := fill("large", "two", bytesBound/4); !errors.Is(err, once.ErrShare) {
		t.Errorf("a reserve of a quarter = %v; want ErrShare", err)
	}
	for i := range 6 {
		if err := fill(fmt.Sprint("more", i), fmt.Sprint(i), 0); err != nil {
			t.Errorf("key %d = %v", i+2, err)
		}
	}
	if err := fill("last", "last", 0); !errors.Is(err, once.ErrFull) {
		t.Errorf("key 9 of 8 = %v; want ErrFull", err)
	}
	got, err := s.Get(t.Context(), once.Sum("one0"))
	if err != nil || got.Version == 0 {
		t.Fatalf("Get = %v, %v; want the first, because nothing is evicted", got, err)
	}
	r := record(once.Answered, time.Hour)
	r.Principal, r.Body = once.Sum("one"), make([]byte, 100<<10)
	v := put(t, s, "one0", r, got.Version) // a full store still takes answers
	if err := s.Delete(t.Context(), once.Sum("one0"), v); err != nil {
		t.Fatal(err)
	}
	if err := fill("last", "last", 0); err != nil {
		t.Errorf("key 8 of 8 = %v", err)
	}
}

func expiry(t *testing.T, b Backend) {
	if b.Pass == nil {
		b.Pass = time.Sleep
	}
	s := b.Open(bytesBound, 4)
	const short = 300 * time.Millisecond
	v := put(t, s, "a", record(once.Claimed, short), 0)
	b.Pass(2 * short)
	if got, err := s.Get(t.Context(), once.Sum("a")); err != nil || got.Version != 0 {
		t.Errorf("Get of an expired record = %v, %v; want none", got, err)
	}
	if _, err := s.Put(t.Context(), once.Sum("a"), record(once.Answered, time.Hour), v); !errors.Is(err, once.ErrConflict) {
		t.Errorf("Put over an expired record = %v; want ErrConflict", err)
	}
	for i := range 12 { // three times as many as there is room for
		r := record(once.Claimed, short)
		r.Principal = once.Sum(fmt.Sprint(i))
		put(t, s, fmt.Sprint("b", i), r, 0)
		if i%4 == 3 {
			b.Pass(2 * short)
		}
	}
}

// Of many that claim a key at the same time, one wins.
func oneWins(t *testing.T, b Backend) {
	stores := []once.Store{b.Open(bytesBound, keysBound)}
	if b.Shared {
		stores = append(stores, b.Open(bytesBound, keysBound))
	}
	for round := range 20 {
		var mu sync.Mutex
		won := 0
		var work sync.WaitGroup
		for i := range 8 {
			work.Go(func() {
				_, err := stores[i%len(stores)].Put(t.Context(), once.Sum(fmt.Sprint(round)), record(once.Claimed, time.Hour), 0)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else if !errors.Is(err, once.ErrConflict) {
					t.Errorf("Put = %v; want ErrConflict", err)
				}
			})
		}
		if work.Wait(); won != 1 {
			t.Errorf("%d have claimed one key; want 1", won)
		}
	}
}
