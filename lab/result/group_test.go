package result_test

import (
	"testing"

	"github.com/weir-go/weir/lab/result"
)

func TestGroupsTakeTheMedianRoundOfEachVariantAndSetting(t *testing.T) {
	m := func(variant, setting string, x float64, round int, perSecond float64, failures int64) result.Measurement {
		return result.Measurement{Variant: variant, Setting: setting, X: x, Round: round, PerSecond: perSecond, Failures: failures}
	}
	groups := result.Groups([]result.Measurement{
		m("b", "", 0, 1, 30, 1), m("a", "", 0, 1, 5, 0),
		m("b", "", 0, 2, 10, 2), m("a", "", 0, 2, 7, 0),
		m("b", "", 0, 3, 20, 4), m("a", "12", 0, 0, 1, 0), m("a", "", 2, 0, 9, 0),
	})
	want := []struct {
		variant, setting string
		x                float64
		rounds, median   int
		low, high        float64
		failures         int64
	}{
		{"b", "", 0, 3, 3, 10, 30, 7},
		{"a", "", 0, 2, 1, 5, 7, 0},
		{"a", "12", 0, 1, 0, 1, 1, 0},
		{"a", "", 2, 1, 0, 9, 9, 0},
	}
	if len(groups) != len(want) {
		t.Fatalf("%d groups; want %d: %+v", len(groups), len(want), groups)
	}
	for i, w := range want {
		g := groups[i]
		low, high := g.Spread()
		if g.Median.Variant != w.variant || g.Median.Setting != w.setting || g.Median.X != w.x ||
			len(g.Rounds) != w.rounds || g.Median.Round != w.median || low != w.low || high != w.high || g.Failures() != w.failures {
			t.Errorf("group %d: %+v, spread %g-%g, %d failures; want %+v", i, g, low, high, g.Failures(), w)
		}
		if g.Rounds[0].Round > 1 {
			t.Errorf("group %d: rounds are not in the order of measuring: %+v", i, g.Rounds)
		}
	}
	if got := result.Groups(nil); len(got) != 0 {
		t.Errorf("Groups(nil) = %v; want none", got)
	}
}
