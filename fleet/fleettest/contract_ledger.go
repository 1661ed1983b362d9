package fleettest

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/weir-go/weir/fleet"
)

func (s *suite) ledgers(n int) []fleet.Ledger {
	var all []fleet.Ledger
	for range n {
		l := s.f.Instance().Abilities().Ledger
		if l == nil {
			s.Log("not run: the engine does not count units")
			return nil
		}
		all = append(all, l)
	}
	return all
}

// slowly is a rate at which nothing comes back during a test.
func slowly(burst int) fleet.Rate { return fleet.Rate{Permits: 1, Per: 24 * time.Hour, Burst: burst} }

// spendAndCorrect spends with several instances, gives back and owes.
func (s *suite) spendAndCorrect() {
	all := s.ledgers(2)
	if all == nil {
		return
	}
	ctx, k, r := context.Background(), s.key("budget"), slowly(100)
	spend := func(by, n int, ok bool, left float64) fleet.Spent {
		s.Helper()
		got, err := all[by].Spend(ctx, k, r, n)
		if err != nil || got.OK != ok || math.Abs(got.Left-left) > 0.01 {
			s.Fatalf("Spend(%d) = %+v, %v; want OK %v, and %v left", n, got, err, ok, left)
		}
		return got
	}
	correct := func(by, debt int, c fleet.Correction, returned, owed int, left float64) {
		s.Helper()
		got, err := all[by].Correct(ctx, k, r, debt, c)
		if err != nil || got.Returned != returned || got.Owed != owed || math.Abs(got.Left-left) > 0.01 {
			s.Fatalf("Correct(%+v, debt %d) = %+v, %v; want %d returned, %d owed, and %v left", c, debt, got, err, returned, owed, left)
		}
	}
	a, b := spend(0, 40, true, 60), spend(1, 40, true, 20)
	if got := spend(0, 30, false, 20); got.RetryAfter < 239*time.Hour || got.RetryAfter > 240*time.Hour {
		s.Errorf("RetryAfter = %v; want that of 10 units", got.RetryAfter)
	}
	spend(0, 21, false, 20)
	correct(1, 0, fleet.Correction{Mark: a.Mark, Units: 40, Cost: 10}, 30, 0, 50) // by another instance
	c := spend(1, 30, true, 20)
	correct(0, 0, fleet.Correction{Mark: b.Mark, Units: 40, Cost: 50}, 0, 10, 10)
	correct(0, 0, fleet.Correction{Mark: c.Mark, Units: 30, Cost: 100}, 0, 10, 0)
	correct(0, 25, fleet.Correction{Cost: 70}, 0, 25, -25)
	correct(0, 25, fleet.Correction{Cost: 70}, 0, 0, -25)
	correct(0, 10, fleet.Correction{Cost: 70}, 0, 0, -25) // owes more than that already
	spend(0, 1, false, -25)
	correct(0, 0, fleet.Correction{Units: 30}, 0, 0, -25) // without a mark
	other := c.Mark
	other.Epoch++
	correct(0, 0, fleet.Correction{Mark: other, Units: 30}, 0, 0, -25)
	for _, bad := range []fleet.Rate{{}, {Permits: 1, Per: -1, Burst: 1}} {
		if _, err := all[0].Spend(ctx, k, bad, 1); err == nil {
			s.Errorf("Spend with %+v = nil; want an error", bad)
		}
	}
	if _, err := all[0].Spend(ctx, k, r, 0); err == nil {
		s.Error("Spend(0) = nil; want an error")
	}
	k = s.key("without debt")
	spend(0, 95, true, 5)
	correct(0, -50, fleet.Correction{Cost: 10}, 0, 5, 0)
}

// unitsComeBackOnce: units that came back with time are not given back again.
func (s *suite) unitsComeBackOnce() {
	all := s.ledgers(1)
	if all == nil {
		return
	}
	ctx, k, r := context.Background(), s.key("once"), fleet.Rate{Permits: 100, Per: time.Second, Burst: 100}
	a, err := all[0].Spend(ctx, k, r, 100)
	if err != nil || !a.OK {
		s.Fatalf("Spend(100) = %+v, %v; want OK", a, err)
	}
	time.Sleep(600 * time.Millisecond)
	if b, err := all[0].Spend(ctx, k, r, 60); err != nil || !b.OK {
		s.Fatalf("Spend(60) after 600ms = %+v, %v; want OK", b, err)
	}
	got, err := all[0].Correct(ctx, k, r, 0, fleet.Correction{Mark: a.Mark, Units: 100})
	if err != nil || got.Returned > 40 {
		s.Errorf("Correct = %+v, %v; want at most the 40 that had not come back", got, err)
	}

	// Units of an earlier call that were given back did not come back with time; those of this
	// one did.
	k = s.key("once, after another")
	var marks []fleet.Mark
	spend := func() {
		s.Helper()
		got, err := all[0].Spend(ctx, k, r, 40)
		if err != nil || !got.OK {
			s.Fatalf("Spend(40) = %+v, %v; want OK", got, err)
		}
		marks = append(marks, got.Mark)
	}
	spend()
	spend()
	if _, err := all[0].Correct(ctx, k, r, 0, fleet.Correction{Mark: marks[0], Units: 40}); err != nil {
		s.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	spend()
	got, err = all[0].Correct(ctx, k, r, 0, fleet.Correction{Mark: marks[1], Units: 40})
	if err != nil || got.Returned > 10 {
		s.Errorf("Correct = %+v, %v; want at most the 10 that had not come back", got, err)
	}
}

// correctionsAreBounded: a bucket remembers as many corrections as it should. Forgotten ones
// count as if they were of earlier calls, so that units go back once at most.
func (s *suite) correctionsAreBounded() {
	all := s.ledgers(1)
	if all == nil {
		return
	}
	for _, row := range []struct{ keep, back int }{{0, 20}, {4, 20}, {3, 19}, {1, 17}} {
		ctx, k, r := context.Background(), s.key("bounded "+strconv.Itoa(row.keep)), slowly(100)
		spend := func(n int) fleet.Mark {
			s.Helper()
			got, err := all[0].Spend(ctx, k, r, n)
			if err != nil || !got.OK {
				s.Fatalf("Spend(%d) = %+v, %v; want OK", n, got, err)
			}
			return got.Mark
		}
		first := spend(20)
		for range 4 {
			c := fleet.Correction{Mark: spend(2), Units: 2, Cost: 1, Keep: row.keep}
			if got, err := all[0].Correct(ctx, k, r, 0, c); err != nil || got.Returned != 1 {
				s.Fatalf("Correct(%+v) = %+v, %v; want 1 returned", c, got, err)
			}
		}
		got, err := all[0].Correct(ctx, k, r, 0, fleet.Correction{Mark: first, Units: 20, Keep: row.keep})
		if err != nil || got.Returned != row.back {
			s.Errorf("Correct with Keep %d = %+v, %v; want %d returned", row.keep, got, err, row.back)
		}
	}
}

// unitsInAnyOrder compares a random history of several instances with a fleet.Memory.
func (s *suite) unitsInAnyOrder() {
	all := s.ledgers(3)
	if all == nil {
		return
	}
	for seed := range uint64(10) {
		s.unitsAsInAModel(all, seed)
	}
}

func (s *suite) unitsAsInAModel(all []fleet.Ledger, seed uint64) {
	ctx, k, r := context.Background(), s.key("history "+strconv.FormatUint(seed, 10)), slowly(1000)
	model := fleet.NewMemory(fleet.MemoryOptions{})
	type open struct {
		units        int
		mark, theirs fleet.Mark
	}
	var calls []open
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range 80 {
		l := all[rng.IntN(len(all))]
		if n := 1 + rng.IntN(200); len(calls) == 0 || rng.IntN(2) == 0 {
			got, err := l.Spend(ctx, k, r, n)
			want, err2 := model.Spend(ctx, k, r, n)
			if err != nil || err2 != nil || got.OK != want.OK || math.Abs(got.Left-want.Left) > 0.1 {
				s.Fatalf("step %d: Spend(%d) = %+v, %v; want %+v", i, n, got, err, want)
			}
			if got.OK {
				calls = append(calls, open{n, got.Mark, want.Mark})
			}
			continue
		}
		j := rng.IntN(len(calls))
		call, cost, debt := calls[j], rng.IntN(20), rng.IntN(300)
		if rng.IntN(10) == 0 { // seldom, as nothing comes back with time
			cost = rng.IntN(250)
		}
		calls = append(calls[:j], calls[j+1:]...)
		got, err := l.Correct(ctx, k, r, debt, fleet.Correction{Mark: call.mark, Units: call.units, Cost: cost})
		want, err2 := model.Correct(ctx, k, r, debt, fleet.Correction{Mark: call.theirs, Units: call.units, Cost: cost})
		if err != nil || err2 != nil || got.Returned != want.Returned || got.Owed != want.Owed || math.Abs(got.Left-want.Left) > 0.1 {
			s.Fatalf("step %d: Correct(%d to %d) = %+v, %v; want %+v, %v", i, call.units, cost, got, err, want, err2)
		}
	}
}
