package responses_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/internal/responses"
)

func TestTooBigIsNotStored(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 100_000})
	put(t, s, key("/a"), named("small"))
	for _, n := range []int{50_000, 60_000, 1_000_000} {
		if s.Begin(key("/a")).Put(response(n)) {
			t.Errorf("Put of %d bytes in a store of 100000 = true; want false", n)
		}
	}
	roomy := response(10)
	roomy.Body = make([]byte, 10, 60_000)
	if s.Begin(key("/a")).Put(roomy) {
		t.Error("Put of 10 bytes with a capacity of 60000 = true; want false")
	}
	if st := s.Stats(); st.TooBig != 4 || st.Overtaken != 0 {
		t.Errorf("TooBig, Overtaken = %d, %d; want 4, 0", st.TooBig, st.Overtaken)
	}
	wantBody(t, s, key("/a"), "small")
	put(t, s, key("/b"), response(40_000))
	s.Check(t)
}

func TestStoreOfNothing(t *testing.T) {
	for _, n := range []int64{0, -1, 1, 100} {
		s := responses.New(responses.Options{Bytes: n})
		if s.Begin(key("/a")).Put(response(0)) {
			t.Errorf("Bytes %d: Put = true; want false", n)
		}
		if s.Reserve(1000) {
			t.Errorf("Bytes %d: Reserve(1000) = true; want false", n)
		}
		wantBound(t, s)
	}
}

// Above 4 GiB, the underlying cache counts in units larger than a byte.
func TestStoreOfManyBytes(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 40})
	for i := range 100 {
		put(t, s, key(path(i)), response(i*100))
	}
	if !s.Reserve(1 << 39) {
		t.Error("Reserve of half = false; want true")
	}
	if st := s.Stats(); st.Responses != 100 || st.Used > 100*7000 {
		t.Errorf("Responses, Used = %d, %d; want 100, less than 700000", st.Responses, st.Used)
	}
	s.Check(t)
}

// Evictions use those units too: sizes beyond 32 bits have the right weight.
func TestResponsesOfManyBytes(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 16 << 30})
	big := func() *responses.Stored {
		r := response(0)
		r.Extra = 1<<32 + 1<<10
		return r
	}
	for i := range 3 {
		put(t, s, key(path(i)), big())
	}
	fetches := 1
	for !s.Begin(key("/new")).Put(big()) {
		wantBound(t, s)
		if fetches++; fetches > 10 {
			t.Fatal("the fourth response of 4 GiB in 16 GiB is not stored after 10 fetches")
		}
	}
	if st := s.Stats(); st.Evicted == 0 || st.Responses == 0 || st.Responses > 3 {
		t.Errorf("Stats = %+v; want up to 3 responses left, and others evicted", st)
	}
	s.Check(t)
}

// Among responses requested once, a large one is stored when it is requested
// again.
func TestBigResponsesGetTheirPlace(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	for i := range 1000 {
		s.Begin(key(path(i))).Put(response(2000))
	}
	fetches := 1
	for !s.Begin(key("/big")).Put(response(400_000)) {
		wantBound(t, s)
		if fetches++; fetches > 10 {
			t.Fatal("a big response is not stored after 10 fetches")
		}
	}
	wantBound(t, s)
	if s.Get(key("/big"), asks(nil)) == nil {
		t.Error("Get = nil; want the big response")
	}
	s.Check(t)
}

// Extra counts as if it were stored, and so does unused capacity of a body.
func TestExtraCounts(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	put(t, s, key("/a"), response(100))
	plain := s.Stats().Used
	r := response(100)
	r.Extra = 1000
	put(t, s, key("/a"), r)
	if used := s.Stats().Used; used != plain+1000 {
		t.Errorf("Used = %d with an Extra of 1000; want %d", used, plain+1000)
	}
	roomy := response(0)
	roomy.Body = make([]byte, 112, 8192)
	put(t, s, key("/a"), roomy)
	if used := s.Stats().Used; used != plain+8192-112 {
		t.Errorf("Used = %d with a capacity of 8192; want %d", used, plain+8192-112)
	}
}

// Buffers in flight displace stored responses, up to half of the bound (H4).
func TestH4BuffersCountAgainstTheStore(t *testing.T) {
	const bound = 1 << 20
	s := responses.New(responses.Options{Bytes: bound})
	for i := range 1000 {
		s.Begin(key(path(i))).Put(response(2000))
		wantBound(t, s)
	}
	full := s.Stats().Used
	if full < bound*9/10 {
		t.Errorf("Used = %d of %d with more than fits; want nearly all", full, bound)
	}
	taken := 0
	for s.Reserve(bound / 128) {
		taken++
		wantBound(t, s)
	}
	if st := s.Stats(); taken != 64 || st.Reserved != bound/2 || st.Used > bound/2 || st.Used < bound*4/10 {
		t.Errorf("%d of 64 parts reserved, Stats %+v; want half reserved, the rest mostly used", taken, st)
	}
	if s.Reserve(1) {
		t.Error("Reserve(1) above half = true; want false")
	}
	s.Begin(key("/while")).Put(response(2000))
	wantBound(t, s)
	for range taken {
		if !s.Reserve(-bound / 128) {
			t.Error("Reserve(-n) = false; want true")
		}
	}
	for i := range 1000 {
		s.Begin(key(path(i))).Put(response(2000))
	}
	if st := s.Stats(); st.Reserved != 0 || st.Used < bound*9/10 {
		t.Errorf("Stats %+v after everything was returned; want nearly all used", st)
	}
	s.Check(t)
}

func TestReserveGivesBackNoMoreThanItTook(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1000})
	s.Reserve(100)
	defer func() {
		if recover() == nil {
			t.Error("Reserve(-101) after Reserve(100) did not panic")
		}
		if got := s.Stats().Reserved; got != 100 {
			t.Errorf("Reserved = %d; want 100", got)
		}
	}()
	s.Reserve(-101)
}

// A scan of 100,000 URLs, each requested once, passes through 64 MiB. The bound
// holds, live memory exceeds it only slightly, and entries in repeated use stay.
// The process takes about twice the live memory, if the garbage collector keeps
// up.
func TestScanLeavesHotEntries(t *testing.T) {
	const bound, scan, hot = 64 << 20, 100_000, 1000
	s := responses.New(responses.Options{Bytes: bound})
	base, most, mostUsed := heap(), int64(0), int64(0)

	r := rand.New(rand.NewPCG(1, 2))
	fetch := func(p string, n int) {
		if s.Get(key(p), asks(nil)) == nil {
			s.Begin(key(p)).Put(response(n))
		}
	}
	for range 20 { // a working set, in which some responses are larger than others
		for i := range hot {
			fetch("/hot"+path(i), 1000+i*10)
		}
	}
	for i := range scan {
		fetch("/once"+path(i), 500+r.IntN(4000))
		if i%10 == 0 {
			fetch("/hot"+path(r.IntN(hot)), 5000)
		}
		if i%1000 == 0 {
			st := s.Stats()
			wantBound(t, s)
			mostUsed = max(mostUsed, st.Used)
		}
		if i%10_000 == 0 {
			most = max(most, heap()-base)
		}
	}
	left := 0
	for i := range hot {
		if s.Get(key("/hot"+path(i)), asks(nil)) != nil {
			left++
		}
	}
	t.Logf("%d of %d hot entries left, %d bytes used at most, %d live, %+v", left, hot, mostUsed, most, s.Stats())
	if left < hot*97/100 { // 985 to 1000, by how the cache has adapted its window
		t.Errorf("%d of %d hot entries left; want at least 97 %%", left, hot)
	}
	if mostUsed < bound*9/10 {
		t.Errorf("Used = %d at most; want nearly all of %d", mostUsed, bound)
	}
	if most > bound*5/4 {
		t.Errorf("%d bytes live; want at most 1.25 times %d", most, bound)
	}
	s.Check(t)
}

// The bound holds at every observable instant, in a burst from eight goroutines
// (E8).
func TestE8BoundHoldsInABurst(t *testing.T) {
	for _, tt := range []struct {
		name  string
		bound int64
		body  int
		each  int // responses of each writer
	}{{"small", 4 << 20, 1000, 1000}, {"some big", 2 << 20, 500_000, histories.Count(200, 1000) / histories.Part()}, {"tiny store", 20_000, 4000, 1000}} {
		t.Run(tt.name, func(t *testing.T) {
			s := responses.New(responses.Options{Bytes: tt.bound})
			var over atomic.Int64
			var burst, watch sync.WaitGroup
			done := make(chan struct{})
			watch.Go(func() {
				for {
					if st := s.Stats(); st.Used+st.Reserved > st.Bytes || st.Used < 0 {
						over.Add(1)
					}
					select {
					case <-done:
						return
					default:
						runtime.Gosched()
					}
				}
			})
			for g := range 8 {
				burst.Go(func() {
					r := rand.New(rand.NewPCG(uint64(g), 1))
					for i := range tt.each {
						held := int64(r.IntN(int(tt.bound / 10)))
						if i%16 != 0 || !s.Reserve(held) {
							held = 0
						}
						s.Begin(key(path(g*10_000 + r.IntN(4000)))).Put(response(r.IntN(tt.body)))
						s.Get(key(path(g*10_000+r.IntN(4000))), nil)
						s.Reserve(-held)
					}
				})
			}
			burst.Wait()
			close(done)
			watch.Wait()
			if n := over.Load(); n > 0 {
				t.Errorf("the sum was above the bound %d times", n)
			}
			st := s.Stats()
			if st.Reserved != 0 || st.Evicted == 0 || st.Used < st.Bytes/2 {
				t.Errorf("Stats = %+v; want nothing reserved, some evicted, and most used", st)
			}
			s.Check(t)
		})
	}
}

// Spare bytes are taken only from three quarters of the memory for buffers.
func TestH4_SpareBytesLeaveRoomForOtherFlights(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 8000})
	for _, step := range []struct {
		n     int64
		spare bool
		want  bool
	}{
		{2000, false, true}, {1000, true, true}, {1, true, false},
		{1000, false, true}, {1, false, false}, {-2000, false, true}, {1000, true, true}, {1, true, false},
	} {
		reserve, name := s.Reserve, "Reserve"
		if step.spare {
			reserve, name = s.ReserveSpare, "ReserveSpare"
		}
		if got := reserve(step.n); got != step.want {
			t.Errorf("%s(%d) = %v with %d reserved; want %v", name, step.n, got, s.Stats().Reserved, step.want)
		}
	}
}
