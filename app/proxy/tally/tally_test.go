package tally_test

import (
	"testing"

	"github.com/weir-go/weir/app/proxy/tally"
)

func TestC11_ClassesOfStatuses(t *testing.T) {
	for status, want := range map[int]string{101: "1xx", 200: "2xx", 299: "2xx", 304: "3xx", 404: "4xx", 499: "4xx", 500: "5xx", 599: "5xx", 777: "5xx"} {
		if got := tally.Of(status).String(); got != want {
			t.Errorf("Of(%d) = %s; want %s", status, got, want)
		}
	}
}

// Routes keep their counts over a reload, and what belongs to no route has a count of its
// own, so that nothing is lost.
func TestC11_ReloadsKeepTheCounts(t *testing.T) {
	var n tally.Tally
	n.Count("pages", tally.Success) // no routes yet
	n.Routes([]string{"pages", "old", ""})
	n.Count("pages", tally.ServerError)
	n.Count("old", tally.Broken)
	n.Count("", tally.ClientError)
	n.Routes([]string{"pages", "new"})
	n.Count("old", tally.Broken) // still in flight at the reload
	n.Count("new", tally.Redirect)
	got := n.Counts()
	want := map[string]tally.Counts{
		"":      {tally.Success: 1, tally.ClientError: 1, tally.Broken: 1},
		"pages": {tally.ServerError: 1},
		"new":   {tally.Redirect: 1},
	}
	if len(got) != len(want) {
		t.Errorf("Counts = %v; want %v", got, want)
	}
	for route, counts := range want {
		if got[route] != counts {
			t.Errorf("Counts[%q] = %v; want %v", route, got[route], counts)
		}
	}
	if n := testing.AllocsPerRun(100, func() { n.Count("new", tally.Success) }); n > 0 {
		t.Errorf("Count allocates %v times; want 0", n)
	}
}
