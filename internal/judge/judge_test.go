package judge_test

import (
	"go/build"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/internal/judge"
)

const module = "github.com/weir-go/weir"

// The judge must not repeat a fault of the code, so it uses none of it.
func TestTheJudgeImportsNothingOfTheModule(t *testing.T) {
	p, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range p.Imports {
		if strings.HasPrefix(path, module) || strings.Contains(strings.Split(path, "/")[0], ".") {
			t.Errorf("package judge imports %s; want the standard library alone", path)
		}
	}
	if len(p.Imports) == 0 {
		t.Error("no imports found")
	}
}

func play(t *testing.T, h judge.History, open judge.Open) (faults []judge.Fault, tally judge.Tally) {
	synctest.Test(t, func(t *testing.T) {
		rec, err := judge.Play(h, open)
		if err != nil {
			t.Fatal(err)
		}
		faults, tally = judge.Judge(rec)
	})
	return faults, tally
}

func TestACorrectCacheHasNoFault(t *testing.T) {
	tallies := map[judge.Way]*judge.Tally{}
	for seed := range histories.Seeds(t, 3000, 100_000) {
		h := judge.Draw(seed, judge.All)
		faults, tally := play(t, h, openToy(toyRule))
		if len(faults) > 0 {
			small := judge.Shrink(h, func(h judge.History) bool {
				again, _ := play(t, h, openToy(toyRule))
				return len(again) > 0 && again[0].Class == faults[0].Class
			})
			again, _ := play(t, small, openToy(toyRule))
			t.Errorf("%s\n%v", again[0].Text, small)
		}
		if tallies[h.Way] == nil {
			tallies[h.Way] = &judge.Tally{}
		}
		tallies[h.Way].Add(tally)
	}
	if histories.Alone() || t.Failed() {
		return
	}
	for _, way := range judge.Ways {
		c := tallies[way]
		t.Logf("%-8s must %5d, must not %5d, may %5d, shared %5d", way, c.Must, c.MustNot, c.May, c.Shared)
		if c.Must*5 < c.Pairs() {
			t.Errorf("%s: %d of %d pairs must share; want a fifth", way, c.Must, c.Pairs())
		}
	}
}

// Each wrong rule must be found, and soon.
func TestWrongRulesAreFound(t *testing.T) {
	type row struct {
		name string
		open judge.Open
		want string // in the class of a fault
	}
	rows := []row{
		{"nothing is shared", openToy(func(judge.History, *entry, *visit) bool { return false }), "two calls where one must do"},
		{"everything is shared", openToy(func(judge.History, *entry, *visit) bool { return true }), "a field of kind unknown differs"},
	}
	for part, want := range map[string]string{
		"the strict rule": "", "the strict rule of POST": "read: a field of kind unknown", // a list of names instead of the rule
		"unknown": "", "identity": "", "negotiation": "", "page": "", "part": "", "forwarding": "", "origin": "",
		"baggage": "", "repeat": "", "address": "address differs", "credential": "with ", "vary": "Vary does not match",
		"coding": "accept the coding", "certificate": "certificate", "program": "the program knows",
	} {
		if want == "" {
			want = "a field of kind " + part
		}
		if part == "the strict rule" {
			want = "a field of kind unknown"
		}
		rows = append(rows, row{"without " + part, openToy(without(part)), want})
	}
	for part, want := range map[string]string{
		"purges": "purged", "variants behind a response without Vary": "hides variants", "the union of Vary": "Vary does not match",
		"the cookie of a 304": "Set-Cookie of another", "what a 304 takes back": "a response with private",
		"the windows of the route":         "differs, strict, with a lifetime",
		"conditions, ranges and overrides": "range of another unit",
	} {
		rows = append(rows, row{"without " + part, openToyWithout(toyRule, part), want})
	}
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			seeds := 0
			for seed := range histories.Seeds(t, 20_000, 20_000) {
				seeds++
				faults, _ := play(t, judge.Draw(seed, judge.All), tt.open)
				for _, f := range faults {
					if strings.Contains(f.Class, tt.want) {
						t.Logf("%s after %d histories", f.Class, seeds)
						return
					}
				}
			}
			if !histories.Alone() {
				t.Errorf("no fault with %q in %d histories", tt.want, seeds)
			}
		})
	}
}

func TestShrinkKeepsTheFault(t *testing.T) {
	all := openToy(func(judge.History, *entry, *visit) bool { return true })
	for seed := range histories.Seeds(t, 20, 200) {
		h := judge.Draw(seed, judge.All)
		faults, _ := play(t, h, all)
		if len(faults) == 0 {
			continue
		}
		class := faults[0].Class
		has := func(h judge.History) bool {
			faults, _ := play(t, h, all)
			return slices.ContainsFunc(faults, func(f judge.Fault) bool { return f.Class == class })
		}
		small := judge.Shrink(h, has)
		if !has(small) {
			t.Errorf("the shrunk history has no fault %q any more:\n%v", class, small)
		}
		requests := 0
		for _, s := range small.Steps {
			requests += len(s.Requests)
		}
		if requests > 3 {
			t.Errorf("%d requests are left for %q:\n%v", requests, class, small)
		}
	}
}

func TestKinds(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		want        judge.Kind
	}{
		{"traceparent", "", judge.KindRequest},
		{"X-B3-TraceId", "", judge.KindRequest},
		{"If-None-Match", "", judge.KindCondition},
		{"Sec-CH-UA-Mobile", "", judge.KindProgram},
		{"Sec-GPC", "", judge.KindUnknown},
		{"X-Amzn-Oidc-Accesstoken", "", judge.KindUnknown},
		{"X-Forwarded-For", "", judge.KindAddress},
		{"X-Forwarded-Host", "", judge.KindForwarding},
		{"Forwarded", "for=192.0.2.1, for=192.0.2.2", judge.KindAddress},
		{"Forwarded", "for=192.0.2.1;host=a", judge.KindOverride},
		{"X-Anything", "", judge.KindUnknown},
	} {
		if got := judge.KindOf(tt.name, []string{tt.value}); got != tt.want {
			t.Errorf("KindOf(%q, %q) = %s; want %s", tt.name, tt.value, got, tt.want)
		}
	}
}
