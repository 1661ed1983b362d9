package cli_test

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/jobsctl"
)

// J28: weir jobs pauses and resumes a queue, by either way, and shows that it is paused.
func TestJ28_WeirJobsPauseAndResume(t *testing.T) {
	t.Parallel()
	m := newMill(t)
	m.grind(t)
	for name, way := range m.ways {
		for _, step := range []struct {
			verb, want string
			paused     bool
		}{
			{"pause", "Queue mail is paused.\n", true},
			{"resume", "Queue mail is resumed.\n", false},
		} {
			if got := weirJobs(t, way, command.ExitOK, step.verb, "mail").stdout.String(); got != step.want {
				t.Errorf("%s: %s wrote %q; want %q", name, step.verb, got, step.want)
			}
			var page jobsctl.QueuePage
			decode(t, weirJobs(t, way, command.ExitOK, "queues", "--json").stdout.String(), &page)
			for _, q := range page.Queues {
				if q.Paused != (step.paused && q.Queue == "mail") {
					t.Errorf("%s: after %s mail, queue %s is paused: %v", name, step.verb, q.Queue, q.Paused)
				}
			}
			if got := weirJobs(t, way, command.ExitOK, "queues").stdout.String(); strings.Contains(got, "(paused) mail") != step.paused {
				t.Errorf("%s: after %s, queues wrote\n%s", name, step.verb, got)
			}
			var o jobsctl.QueueOutcome
			decode(t, weirJobs(t, way, command.ExitOK, step.verb, "mail", "--json").stdout.String(), &o)
			if o != jobsctl.PauseOutcome("mail", step.paused) {
				t.Errorf("%s: %s --json wrote %+v", name, step.verb, o)
			}
			s := weirJobs(t, way, command.ExitFailed, step.verb, "unknown")
			if want := `no program has used a queue "unknown"`; !strings.Contains(s.stderr.String(), want) {
				t.Errorf("%s: %s unknown wrote %q; want %q", name, step.verb, s.stderr.String(), want)
			}
		}
	}
}
