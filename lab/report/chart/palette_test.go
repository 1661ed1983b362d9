package chart_test

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/lab/report/chart"
)

func TestPalette(t *testing.T) {
	p := chart.NewPalette([][]string{
		{"unprotected", "x/sync singleflight", "weir", "weir: cache", "ceiling: a constant"},
		{"nothing", "fixed limit", "weir: adaptive", "weir"},
		{"unprotected", "a", "b", "c", "d", "e", "f", "g"},
		{"weir 1", "weir 2", "weir 3", "weir 4", "weir 5"},
	})
	later := chart.NewPalette([][]string{{"weir 1", "weir 2", "weir 3", "weir 4"}, {"weir 5", "weir 1"}})
	if later.Of("weir 5") == later.Of("weir 1") {
		t.Errorf("a new variant gets %q, the class of a known variant that comes later in the scenario", later.Of("weir 5"))
	}
	for name, family := range map[string]string{
		"unprotected": "u0", "nothing": "u0", "weir": "w", "weir: cache": "w", "weir: adaptive": "w", "ceiling: a constant": "i0",
		"x/sync singleflight": "o", "fixed limit": "o", "never heard of": "i0",
	} {
		if got := p.Of(name); !strings.HasPrefix(string(got), family) {
			t.Errorf("Of(%q) = %q; want %s…", name, got, family)
		}
	}
	for _, scenario := range [][]string{
		{"weir", "weir: cache"}, {"weir", "weir: adaptive"}, {"a", "b", "c", "d", "e", "f", "g"}, {"weir 1", "weir 2", "weir 3", "weir 4", "weir 5"},
	} {
		has := map[chart.Class]string{}
		for _, name := range scenario {
			if other, ok := has[p.Of(name)]; ok {
				t.Errorf("%q and %q of one scenario both have %q", name, other, p.Of(name))
			}
			has[p.Of(name)] = name
		}
	}
	if dashes := strings.Contains(string(p.Of("weir 1")+p.Of("weir 2")+p.Of("weir: adaptive")), "dash"); dashes {
		t.Error("dashes, although a color is free")
	}
}

// Text and lines are legible: WCAG 2.2 requires a contrast of 4.5 to 1 for text.
func TestColorsHaveContrast(t *testing.T) {
	light, dark := chart.Variables()
	for _, variables := range []string{light, dark} {
		colors := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z0-9]+):#([0-9a-f]{6});`).FindAllStringSubmatch(variables, -1) {
			colors[m[1]] = luminance(t, m[2])
		}
		if len(colors) < 15 {
			t.Fatalf("only %d colors in %s", len(colors), variables)
		}
		for name, l := range colors {
			if name == "ground" || name == "grid" || name == "axis" {
				continue
			}
			ground := colors["ground"]
			if ratio := (max(l, ground) + 0.05) / (min(l, ground) + 0.05); ratio < 4.5 {
				t.Errorf("%s has a contrast of %.2f in %s", name, ratio, variables)
			}
		}
	}
	for name := range strings.SplitSeq(light, ";") {
		if name, _, _ := strings.Cut(name, ":"); !strings.Contains(dark, name+":") {
			t.Errorf("%s has no dark value", name)
		}
	}
}

func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(hex, 16, 32)
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", hex, err))
	}
	channel := func(shift int) float64 {
		v := float64(n>>shift&0xff) / 255
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*channel(16) + 0.7152*channel(8) + 0.0722*channel(0)
}
