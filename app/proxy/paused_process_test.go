package proxy_test

import (
	"net/http"
	"strings"
	"testing"
)

// J28: the console and /metrics show that a queue is paused, and that it is resumed.
func TestJ28_ConsoleAndMetricsShowAPausedQueue(t *testing.T) {
	t.Parallel() // it mostly waits
	s, dir := newShop(t), t.TempDir()
	p := start(t, "--config", jobsConfig(t, dir, s.URL, "", brief))
	for _, step := range []struct {
		verb, metric string
		paused       bool
	}{
		{"pause", `weir_jobs_paused{queue="all"} 1`, true},
		{"resume", `weir_jobs_paused{queue="all"} 0`, false},
	} {
		if a, _ := speak(t, http.MethodPost, p.admin+"/jobs/queues/all/"+step.verb, ""); a.status != http.StatusOK {
			t.Fatalf("%s = %+v; want 200", step.verb, a)
		}
		until(t, "the pause to be shown after "+step.verb, func() bool {
			shown := get(p.admin + "/console/api/snapshot").body
			return strings.Contains(get(p.admin+"/metrics").body, step.metric) && strings.Contains(shown, `"name":"all"`) &&
				strings.Contains(shown, `"paused":true`) == step.paused
		})
	}
}
