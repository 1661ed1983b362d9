package source_test

import (
	"sync"
	"testing"

	"github.com/weir-go/weir/app/demo/source"
)

func TestMeterCountsCallsAndMostAtOnce(t *testing.T) {
	var m source.Meter
	a, b := m.Begin(), m.Begin()
	a()
	c := m.Begin()
	if got, want := m.Count(), (source.Count{Calls: 3, Running: 2, Most: 2}); got != want {
		t.Errorf("Count with two running = %+v; want %+v", got, want)
	}
	b()
	c()
	if got, want := m.Count(), (source.Count{Calls: 3, Most: 2}); got != want {
		t.Errorf("Count at the end = %+v; want %+v", got, want)
	}
}

func TestMeterMostAtOnceUnderARace(t *testing.T) {
	const callers = 50
	var m source.Meter
	var wg sync.WaitGroup
	all := make(chan struct{})
	var begun sync.WaitGroup
	begun.Add(callers)
	for range callers {
		wg.Go(func() {
			end := m.Begin()
			begun.Done()
			<-all
			end()
		})
	}
	begun.Wait()
	close(all)
	wg.Wait()
	if got, want := m.Count(), (source.Count{Calls: callers, Most: callers}); got != want {
		t.Errorf("Count = %+v; want %+v", got, want)
	}
}
