package released

import (
	"slices"
	"strings"
	"testing"
)

func TestOrderPutsEachModuleAfterItsRequirements(t *testing.T) {
	a, b, c := Module{Dir: "a"}, Module{Dir: "b"}, Module{Dir: "c"}
	sorted, err := order([]Module{a, b, c}, map[string][]string{a.Path(): {b.Path(), c.Path()}, b.Path(): {c.Path()}})
	if err != nil {
		t.Fatal(err)
	}
	var tags []string
	for _, m := range sorted {
		tags = append(tags, m.Tag("v1.0.0"))
	}
	if want := []string{"c/v1.0.0", "b/v1.0.0", "a/v1.0.0"}; !slices.Equal(tags, want) {
		t.Errorf("order = %v; want %v", tags, want)
	}
	if _, err := order([]Module{a, b}, map[string][]string{a.Path(): {b.Path()}, b.Path(): {a.Path()}}); err == nil {
		t.Error("order returned no error for two modules that import each other")
	}
}

func TestTheModulesOfTheCheckoutHaveAnOrder(t *testing.T) {
	sorted, err := Ordered("../..")
	if err != nil {
		t.Fatal(err)
	}
	if first, last := sorted[0].Tag("v0.1.0"), sorted[len(sorted)-1].Tag("v0.1.0"); first != "v0.1.0" || last != "app/v0.1.0" {
		t.Errorf("the first tag is %s and the last is %s; want the core's first and the command's last", first, last)
	}
	if mod, err := sorted[len(sorted)-1].GoMod("../..", []string{Core}, "v0.1.0"); err != nil || !slices.Contains(strings.Split(string(mod), "\n"), "\t"+Core+" v0.1.0") {
		t.Errorf("the command's go.mod is %s, %v; want %s v0.1.0", mod, err, Core)
	}
}
