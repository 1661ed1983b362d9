package demo_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weir-go/weir/app/demo"
	"github.com/weir-go/weir/app/demo/tile"
	"github.com/weir-go/weir/console"
)

// What a Board shows of levels that are over is what the report says of them.
func TestBoardAgreesWithTheResult(t *testing.T) {
	for _, gateway := range []bool{false, true} {
		t.Run(fmt.Sprintf("gateway=%v", gateway), func(t *testing.T) {
			b := demo.NewBoard()
			c := config(tile.Source{})
			c.Board, c.Gateway = b, gateway
			if s := b.Snapshot(); len(s.Units) != 0 {
				t.Errorf("Snapshot before the run has %d units; want none", len(s.Units))
			}
			res, err := demo.Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			s := b.Snapshot()
			if len(s.Units) != len(res.Levels) {
				t.Fatalf("%d units; want %d", len(s.Units), len(res.Levels))
			}
			if len(s.Servers) != 0 || len(s.Stores) != 0 {
				t.Errorf("servers, stores = %v, %v; want none when all is over", s.Servers, s.Stores)
			}
			for i, u := range s.Units {
				l := res.Levels[i]
				if want := fmt.Sprintf("%d %s", i+1, l.Name); u.Name != want {
					t.Errorf("unit %d is called %q; want %q", i, u.Name, want)
				}
				if u.Requests != uint64(l.Requests) || u.Calls != uint64(l.Calls) || u.Failed != 0 {
					t.Errorf("%s: requests, calls, failed = %d, %d, %d; want %d, %d, 0", u.Name, u.Requests, u.Calls, u.Failed, l.Requests, l.Calls)
				}
				if u.Flights != 0 || u.Running != 0 || u.CallTime.Count != u.Calls {
					t.Errorf("%s: flights, running, timed = %d, %d, %d; want 0, 0, %d", u.Name, u.Flights, u.Running, u.CallTime.Count, u.Calls)
				}
				detail(t, b, u)
			}
		})
	}
}

// detail checks what is known of a unit beyond its place in the Snapshot.
func detail(t *testing.T, b *demo.Board, u console.Unit) {
	t.Helper()
	d, ok := b.Detail(u.Name, 5)
	if !ok || d.Unit.Requests != u.Requests || len(d.Flights) != 0 {
		t.Errorf("Detail(%q) = %+v, %v; want that unit without flights", u.Name, d, ok)
	}
	hot, ok := b.HotKeys(u.Name, 3)
	if !ok || len(hot.ByTraffic) > 3 || len(hot.ByLoadTime) > 3 {
		t.Errorf("HotKeys(%q, 3) = %+v, %v; want at most 3 of each", u.Name, hot, ok)
	}
	if bare := u.Name == "1 unprotected"; bare == (len(hot.ByTraffic) > 0) {
		t.Errorf("%s has %d hot keys", u.Name, len(hot.ByTraffic))
	}
	if ok, err := b.Purge(t.Context(), u.Name, nil, true); !ok || err == nil {
		t.Errorf("Purge(%q) = %v, %v; want an error, as it is over", u.Name, ok, err)
	}
}

func TestBoardUnknownUnit(t *testing.T) {
	b := demo.NewBoard()
	_, detail := b.Detail("x", 1)
	_, hot := b.HotKeys("x", 1)
	purged, err := b.Purge(t.Context(), "x", nil, true)
	if detail || hot || purged || err != nil {
		t.Errorf("Detail, HotKeys, Purge = %v, %v, %v, %v; want none of them", detail, hot, purged, err)
	}
}

// After runs while the last level can be looked at, told to forget, and asked.
func TestRunAfterHasTheLastLevelGoOn(t *testing.T) {
	for _, gateway := range []bool{false, true} {
		t.Run(fmt.Sprintf("gateway=%v", gateway), func(t *testing.T) {
			names := levelNames(gateway)
			last := fmt.Sprintf("%d + admission", len(names))
			b := demo.NewBoard()
			c := config(scripted{})
			c.Board, c.Gateway = b, gateway
			told := errors.New("told")
			c.After = func(res demo.Result) error {
				if len(res.Levels) != len(names) {
					t.Errorf("After has %d levels; want %d", len(res.Levels), len(names))
				}
				grows(t, "requests", func() uint64 { return unitOf(t, b, last).Requests })
				if s := b.Snapshot(); len(s.Limits) == 0 || s.Limits[len(s.Limits)-1].Name != last || s.Limits[len(s.Limits)-1].Kind != "adaptive" {
					t.Errorf("limits = %+v; want that of %q last", s.Limits, last)
				}
				calls := unitOf(t, b, last).Calls
				if ok, err := b.Purge(context.Background(), last, nil, true); !ok || err != nil {
					t.Errorf("Purge(%q) = %v, %v; want true, nil", last, ok, err)
				}
				grows(t, fmt.Sprintf("calls beyond %d", calls), func() uint64 { return unitOf(t, b, last).Calls - calls })
				return told
			}
			if _, err := demo.Run(t.Context(), c); !errors.Is(err, told) {
				t.Errorf("Run = %v; want what After returned, %v", err, told)
			}
		})
	}
}

// grows waits until a number has grown.
func grows(t *testing.T, what string, number func() uint64) {
	t.Helper()
	before := number()
	for end := time.Now().Add(30 * time.Second); number() == before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Errorf("%s: %d, and it stays so", what, before)
			return
		}
	}
}

func unitOf(t *testing.T, b *demo.Board, name string) console.Unit {
	t.Helper()
	for _, u := range b.Snapshot().Units {
		if u.Name == name {
			return u
		}
	}
	t.Errorf("there is no unit %q", name)
	return console.Unit{}
}
