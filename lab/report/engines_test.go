package report_test

import (
	"strings"
	"testing"
)

// The page lists the versions of the engines of all scenarios, each once, and mentions it if
// a run is older than their recording.
func TestPageHasTheVersionsOfTheEngines(t *testing.T) {
	run := sample()
	for _, tt := range []struct {
		engines map[string]string
		want    string
	}{
		{nil, "Versions of the engines: not recorded."},
		{map[string]string{}, "No engines."},
		{map[string]string{"redis": "8.0.2", "nginx": "1.26.3"}, "Engines: nginx 1.26.3, redis 8.0.2."},
	} {
		run.Scenarios[0].Engines = tt.engines
		if len(tt.engines) > 0 {
			run.Scenarios[1].Engines = map[string]string{"nginx": "1.26.3"}
		}
		if have := page(t, run); !strings.Contains(have, tt.want) {
			t.Errorf("the page of a run with engines %v has no %q", tt.engines, tt.want)
		}
	}
}
