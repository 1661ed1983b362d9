package load_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/load"
)

func TestPacerWaitsUntilThenAndNoLongerThanItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := load.NewPacer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	early := 0
	for range 100 {
		at := time.Now().Add(300 * us)
		p.Wait(at)
		if time.Now().Before(at) {
			early++
		}
	}
	if early > 0 {
		t.Errorf("%d of 100 waits ended early; want none", early)
	}
	p.Wait(time.Now().Add(-time.Hour)) // returns at once; otherwise the test hangs
	time.AfterFunc(10*ms, cancel)
	p.Wait(time.Now().Add(time.Hour))
}
