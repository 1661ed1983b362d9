package flight_test

import (
	"context"
	"math"
	"testing"

	"github.com/weir-go/weir/flight"
)

func TestF7DoAndForgetOfAKeyUnequalToItself(t *testing.T) {
	var g flight.Group[any, int]
	if v, err := g.Do(t.Context(), math.NaN(), func(context.Context) (int, error) { return 1, nil }); v != 0 || err != flight.ErrKey {
		t.Errorf("Do(NaN) = %d, %v; want 0, ErrKey", v, err)
	}
	g.Forget(math.NaN())
	if g.Len() != 0 {
		t.Errorf("Len() = %d; want 0", g.Len())
	}
}
