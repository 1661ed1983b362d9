package weirredis_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
)

// T15: the budgets of many keys of two instances, in a real engine: it gets digests, its
// memory for a key is bounded however many calls there are, and a key is gone when its units
// have come back.
func TestT15_KeysOfABudgetInTheEngine(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	o := quota.KeyedBudgetOptions{
		Name: "clients", Namespace: "shop", Rate: fleet.Rate{Permits: 1000, Per: time.Hour, Burst: 1000}, OnFailure: quota.FailClosed,
	}
	var both []*quota.KeyedBudget
	for range 2 {
		b, err := quota.NewKeyedBudget(open(t, s), o)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, b)
	}
	closed := func() {
		t.Helper()
		for _, b := range both {
			if err := b.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Errorf("Close = %v", err)
			}
		}
	}
	defer closed()
	const calls = 300
	for i := range calls { // each gives a unit back
		p, err := both[i%2].AcquireN(t.Context(), "Bearer ada", 3)
		if err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		p.Settle(2)
		p.Release(limit.Success)
	}
	if _, err := both[0].AcquireN(t.Context(), "Bearer bob", 1000); err != nil {
		t.Fatal(err)
	}
	closed() // all corrections are made
	keys := s.Texts("KEYS", "weir:[br]:*")
	var most int
	for _, k := range keys {
		if strings.Contains(k, "Bearer") || strings.Contains(k, "ada") || strings.Contains(k, "bob") {
			t.Errorf("Redis has the key %q; want a digest", k)
		}
		if ms := s.Int("PTTL", k); ms < 1 || ms > 3600_000+2 {
			t.Errorf("%s expires in %d ms; want within the hour in which its units come back", k, ms)
		}
		if strings.HasPrefix(k, "weir:r:") {
			if n := s.Int("LLEN", k); n != 128 {
				t.Errorf("%s has %d corrections; want 128", k, n)
			}
		}
		most = max(most, int(s.Int("MEMORY", "USAGE", k)))
	}
	if len(keys) != 3 { // 2 buckets, and the corrections of one
		t.Errorf("Redis has the keys %q; want 3", keys)
	}
	if most > 5000 {
		t.Errorf("a key takes %d bytes; want at most 5000", most)
	}
}

// T15: a bucket of which all units have come back is gone, and a mark of it gives nothing
// back of the next one.
func TestT15_AFullBucketIsForgotten(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	l, ctx, k := open(t, s), t.Context(), key("soon full")
	r := fleet.Rate{Permits: 1000, Per: time.Second, Burst: 100}
	owe := func() { // makes a bucket as well
		t.Helper()
		if got, err := l.Correct(ctx, k, r, 0, fleet.Correction{Cost: 1}); err != nil || got.Owed != 1 {
			t.Fatalf("Correct = %+v, %v; want 1 owed", got, err)
		}
	}
	owe()
	first, err := l.Spend(ctx, k, r, 99)
	if err != nil || !first.OK {
		t.Fatalf("Spend = %+v, %v", first, err)
	}
	if got, err := l.Correct(ctx, k, r, 0, fleet.Correction{Mark: first.Mark, Units: 99, Cost: 90}); err != nil {
		t.Fatalf("Correct = %+v, %v", got, err)
	}
	for end := time.Now().Add(patience); len(s.Texts("KEYS", "weir:[br]:*")) > 0; <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("Redis still has %q", s.Texts("KEYS", "weir:[br]:*"))
		}
	}
	slow := fleet.Rate{Permits: 1, Per: time.Hour, Burst: 100}
	r = slow
	owe()
	if next, err := l.Spend(ctx, k, slow, 99); err != nil || !next.OK || next.Mark.Epoch == first.Mark.Epoch {
		t.Fatalf("Spend = %+v, %v; want it in another epoch than %+v", next, err, first)
	}
	if got, err := l.Correct(ctx, k, slow, 0, fleet.Correction{Mark: first.Mark, Units: 99}); err != nil || got.Returned != 0 {
		t.Errorf("Correct = %+v, %v; want nothing of the earlier bucket back", got, err)
	}
}

// T15: a bucket lasts until what it owes has come back, and corrections that the engine has
// lost give nothing back twice.
func TestT15_WhatIsOwedIsNotForgotten(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	l, ctx := open(t, s), t.Context()
	r := fleet.Rate{Permits: 1000, Per: time.Hour, Burst: 1000}
	ttl := func(want time.Duration) {
		t.Helper()
		for _, k := range s.Texts("KEYS", "weir:[br]:*") {
			if ms := time.Duration(s.Int("PTTL", k)) * time.Millisecond; ms > want+time.Second || ms < want-time.Minute {
				t.Errorf("%s expires in %v; want %v", k, ms, want)
			}
		}
	}
	owes := key("owes")
	if got, err := l.Correct(ctx, owes, r, 1000, fleet.Correction{Cost: 500}); err != nil || got.Owed != 500 {
		t.Fatalf("Correct = %+v, %v; want 500 owed", got, err)
	}
	ttl(30 * time.Minute)
	first, err := l.Spend(ctx, owes, r, 100)
	if err != nil || !first.OK {
		t.Fatalf("Spend = %+v, %v", first, err)
	}
	ttl(36 * time.Minute)
	if got, err := l.Correct(ctx, owes, r, 1000, fleet.Correction{Mark: first.Mark, Units: 100, Cost: 10}); err != nil || got.Returned != 90 {
		t.Fatalf("Correct = %+v, %v; want 90 back", got, err)
	}
	ttl(30*time.Minute + 36*time.Second)
	if got, err := l.Correct(ctx, owes, r, 1000, fleet.Correction{Cost: 990}); err != nil || got.Owed != 990 {
		t.Fatalf("Correct = %+v, %v; want 990 owed", got, err)
	}
	ttl(90 * time.Minute)

	lost := key("lost")
	long, err := l.Spend(ctx, lost, r, 100)
	if err != nil || !long.OK {
		t.Fatalf("Spend = %+v, %v", long, err)
	}
	next, err := l.Spend(ctx, lost, r, 50)
	if err != nil || !next.OK {
		t.Fatalf("Spend = %+v, %v", next, err)
	}
	if got, err := l.Correct(ctx, lost, r, 0, fleet.Correction{Mark: next.Mark, Units: 50, Cost: 10}); err != nil || got.Returned != 40 {
		t.Fatalf("Correct = %+v, %v; want 40 back", got, err)
	}
	for _, k := range s.Texts("KEYS", "weir:r:*lost*") {
		s.Do("DEL", k)
	}
	if got, err := l.Correct(ctx, lost, r, 0, fleet.Correction{Mark: long.Mark, Units: 100}); err != nil || got.Returned < 58 || got.Returned > 60 {
		t.Errorf("Correct = %+v, %v; want 60 back, less the 40 of which the engine has lost the order", got, err)
	}
}

// The memory of 200 clients that have one call each: see decision 0084.
func TestT15_MemoryOfManyKeys(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	b, err := quota.NewKeyedBudget(open(t, s), quota.KeyedBudgetOptions{
		Namespace: "shop", Rate: fleet.Rate{Permits: 1000, Per: time.Hour}, OnFailure: quota.FailClosed,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		p, err := b.AcquireN(t.Context(), fmt.Sprint("Authorization: Bearer ", i), 500)
		if err != nil {
			t.Fatal(err)
		}
		p.Settle(100)
		p.Release(limit.Success)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Errorf("Close = %v", err)
	}
	total := 0
	for _, k := range s.Texts("KEYS", "weir:[br]:*") {
		total += int(s.Int("MEMORY", "USAGE", k))
	}
	t.Logf("%d bytes for each client", total/200)
	if total > 200*1000 {
		t.Errorf("200 clients take %d bytes; want at most 1000 each", total)
	}
}
