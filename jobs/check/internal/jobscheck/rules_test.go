package jobscheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
)

// Each rule is tested with a history that breaks only this rule, and with a similar
// history that does not break it.

const ms = int64(time.Millisecond)

// judged returns the rules that are broken by these events and final states, in mode
// Single with a lease of 2 s.
func judged(t *testing.T, ends map[string]final, events ...event) []string {
	t.Helper()
	o, err := Options{Mode: Single, For: time.Second, Dir: t.TempDir(), Seed: 1}.validate()
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		events[i].At, events[i].From = events[i].At*ms, events[i].From*ms
	}
	h := newHistory(o, events, ends)
	h.judge()
	var rules []string
	for _, v := range h.broken {
		rules = append(rules, v.Rule)
	}
	return slices.Compact(rules)
}

// plain returns a name whose plan has neither delay, deadline nor Serial.
func plain(prefix string) string {
	for i := 0; ; i++ {
		name := fmt.Sprint(prefix, i)
		if o := planOf(1, name, 2*time.Second).o; o.Delay == 0 && o.Deadline == 0 && o.Serial == "" {
			return name
		}
	}
}

// with returns a name whose plan satisfies ok.
func with(prefix string, ok func(jobs.SubmitOptions) bool) string {
	for i := 0; ; i++ {
		name := fmt.Sprint(prefix, i)
		if ok(planOf(1, name, 2*time.Second).o) {
			return name
		}
	}
}

var (
	one = plain("a-")
	key = plain("key-")
)

func submitOf(name string, from, at int64) event {
	return event{At: at, From: from, By: "submitter-1.1", What: submitted, Name: name, ID: "id-" + name, Result: "disk"}
}

func unanswered(e event) event {
	e.What, e.By, e.At, e.From, e.ID = submitting, "submitter-3.1", e.From, 0, ""
	return e
}

func joining(e event) event { e.Joined = true; return e }
func failing(e event, err string) event {
	e.Err = err
	return e
}

func startOf(name string, at int64, by string, attempt int, fence uint64) event {
	return event{At: at, By: by, What: started, Name: name, ID: "id-" + name, Attempt: attempt, Fence: fence}
}

// endOf returns the end of an attempt, which succeeded if how is fine.
func endOf(start event, at int64, how string) event {
	start.What, start.At = ended, at
	if how == fine {
		start.Result = fmt.Sprint("r", start.Fence)
	} else {
		start.Err = how + ": as planned"
	}
	return start
}

// attemptsOf returns n attempts one after another, of which the last one succeeds.
func attemptsOf(name string, n int) (events []event) {
	for i := 1; i <= n; i++ {
		s, how := startOf(name, int64(10*i), "worker-1.1", i, uint64(i)), transient
		if i == n {
			how = fine
		}
		events = append(events, s, endOf(s, s.At+5, how))
	}
	return events
}

func cancelOf(name string, from, at int64, err string) event {
	return event{At: at, From: from, By: "submitter-2.1", What: canceled, Name: name, ID: "id-" + name, Err: err}
}

func waitOf(name string, at int64, result, err string) event {
	return event{At: at, By: "submitter-2.1", What: waited, Name: name, ID: "id-" + name, Result: result, Err: err}
}

func fault(at int64, w what, name string) event {
	return event{At: at, By: "checker", What: w, Name: name}
}

func in(s jobs.State, attempt int, fence uint64, result string) final {
	return final{status: jobs.Status{State: s, Attempt: attempt, Fence: fence}, result: result}
}

func TestRules(t *testing.T) {
	begin := fault(-100_000, up, "server-1.1") // long ago
	s := submitOf(one, 0, 5)
	s1 := startOf(one, 10, "worker-1.1", 1, 7)
	w1 := endOf(s1, 20, fine)
	s2 := startOf(one, 1000, "worker-2.1", 2, 9)
	late := startOf(one, 5000, "worker-2.1", 2, 9)
	k := submitOf(key, 0, 5)
	k1, k2 := startOf(key, 10, "worker-1.1", 1, 7), startOf(key, 100, "worker-1.1", 1, 9)
	kill1 := []event{fault(500, killed, "worker-1.1"), fault(510, gone, "worker-1.1")}
	done, gaveUp := in(jobs.StateDone, 1, 7, "r7"), in(jobs.StateCanceled, 1, 7, "")

	for _, test := range []struct {
		name   string
		want   string // the broken rules; empty: none
		end    final
		events []event
	}{
		{"a job that is done", "", done, []event{s, s1, w1, waitOf(one, 30, "r7", "")}},
		{"missing in the end", "lost", final{err: jobs.ErrNotFound}, []event{s}},
		{"missing, but never accepted", "", final{err: jobs.ErrNotFound}, []event{failing(s, unknown)}},
		{"not finished in the end", "lost", in(jobs.StateRunning, 1, 7, ""), []event{s, s1}},
		{"cannot be read", "lost", final{err: errors.New("no")}, []event{s}},
		{"two results returned", "result", in(jobs.StateDone, 2, 9, "r9"), []event{s, s1, w1, s2, endOf(s2, 1100, fine), waitOf(one, 30, "r7", ""), waitOf(one, 1200, "r9", "")}},
		{"a result of no attempt", "result", in(jobs.StateDone, 1, 7, "r8"), []event{s, s1, w1}},
		{"a result under another fence", "result", in(jobs.StateDone, 2, 9, "r7"), []event{s, s1, w1, s2, endOf(s2, 1100, transient)}},
		{"a result returned for a job that failed", "result", gaveUp, []event{s, s1, w1, waitOf(one, 30, "r7", "")}},
		{"kept twice", "kept", done, []event{s, s1, w1, {At: 30, By: "worker-1.1", What: kept, ID: s.ID}, {At: 40, By: "worker-2.1", What: kept, ID: s.ID}}},
		{"kept, but canceled", "kept", gaveUp, []event{s, s1, w1, {At: 30, By: "worker-1.1", What: kept, ID: s.ID}}},
		{"started after the cancel", "cancel fence", in(jobs.StateCanceled, 0, 0, ""), []event{s, cancelOf(one, 6, 8, ""), s1, endOf(s1, 20, stopped)}},
		{"started before the cancel, but logged after it", "", gaveUp, []event{s, cancelOf(one, 6, 8, ""), s1, endOf(s1, 20, stopped)}},
		{"long after the cancel, under an old fence", "cancel", in(jobs.StateCanceled, 1, 7, ""),
			[]event{s, cancelOf(one, 6, 8, ""), startOf(one, 9000, "worker-1.1", 1, 7)}},
		{"the same, but its process was stopped", "", in(jobs.StateCanceled, 1, 7, ""),
			[]event{s, cancelOf(one, 6, 8, ""), fault(7, paused, "worker-1.1"), fault(8900, continued, "worker-1.1"), startOf(one, 9000, "worker-1.1", 1, 7)}},
		{"a result after the cancel", "cancel", done, []event{s, s1, cancelOf(one, 12, 14, ""), w1}},
		{"not canceled, after it has finished", "over", gaveUp, []event{s, s1, w1, cancelOf(one, 30, 31, finished)}},
		{"started after it has finished", "over", in(jobs.StateDone, 2, 9, "r9"), []event{s, s1, w1, cancelOf(one, 30, 31, finished), late, endOf(late, 5100, fine)}},
		{"an attempt beside another for too long", "overlap", in(jobs.StateDone, 2, 9, "r9"),
			[]event{s, s1, fault(500, killed, "server-1.1"), fault(600, up, "server-1.2"), s2, endOf(s2, 1100, fine), endOf(s1, 5200, stopped)}},
		{"an attempt beside another within the lease", "", in(jobs.StateDone, 2, 9, "r9"),
			[]event{s, s1, fault(500, killed, "server-1.1"), fault(600, up, "server-1.2"), s2, endOf(s2, 1100, fine), endOf(s1, 2900, stopped)}},
		{"the same for longer, but its process was stopped", "", in(jobs.StateDone, 2, 9, "r9"),
			[]event{s, s1, fault(500, paused, "worker-1.1"), s2, endOf(s2, 1100, fine), fault(8000, continued, "worker-1.1"), endOf(s1, 8100, stopped)}},
		{"an attempt beside one that is running undisturbed", "needless", in(jobs.StateDone, 2, 9, "r9"), []event{s, s1, s2, endOf(s2, 1100, fine), endOf(s1, 1200, stopped)}},
		{"a fence twice", "fence", in(jobs.StateDone, 1, 7, "r7"),
			[]event{s, startOf(one, 8, "worker-2.1", 1, 7), endOf(startOf(one, 8, "worker-2.1", 1, 7), 9, transient), s1, w1, fault(9, asked, "worker-2.1")}},
		{"a decreasing fence", "fence", in(jobs.StateDone, 1, 7, "r7"),
			[]event{s, startOf(one, 6, "worker-2.1", 2, 6), endOf(startOf(one, 6, "worker-2.1", 2, 6), 7, transient), s1, w1}},
		{"a Status behind the attempts", "fence", in(jobs.StateCanceled, 1, 6, ""), []event{s, s1, endOf(s1, 20, stopped), cancelOf(one, 12, 14, "")}},
		{"too many attempts", "attempts", in(jobs.StateDone, 9, 9, "r9"), append([]event{s}, attemptsOf(one, maxAttempts+1)...)},
		{"the maximum number of attempts", "", in(jobs.StateDone, 8, 8, "r8"), append([]event{s}, attemptsOf(one, maxAttempts)...)},
		{"the same attempt again", "fence", in(jobs.StateDone, 1, 9, "r9"),
			[]event{s, s1, endOf(s1, 20, transient), startOf(one, 30, "worker-1.1", 1, 9), endOf(startOf(one, 30, "worker-1.1", 1, 9), 31, fine)}},
		{"one more attempt, because one was handed back", "", in(jobs.StateDone, 9, 9, "r9"),
			[]event{s, s1, fault(15, asked, "worker-1.1"), endOf(s1, 20, stopped), startOf(one, 30, "worker-2.1", 9, 9), endOf(startOf(one, 30, "worker-2.1", 9, 9), 31, fine)}},
		{"an attempt that runs on after the cancel", "told", gaveUp, []event{s, s1, cancelOf(one, 12, 14, ""), endOf(s1, 4000, fine)}},
		{"an attempt that ends after the cancel", "", gaveUp, []event{s, s1, cancelOf(one, 12, 14, ""), endOf(s1, 40, stopped)}},
		{"another level", "level", done, []event{{At: 5, By: "submitter-1.1", What: submitted, Name: one, ID: s.ID, Result: "process"}, s1, w1}},
		{"cut off by a kill", "", in(jobs.StateDone, 2, 9, "r9"), append(slices.Clone(kill1), s, s1, s2, endOf(s2, 1100, fine))},
		{"dead too early", "dead", in(jobs.StateDead, 3, 7, ""), []event{s, s1, endOf(s1, 20, transient)}},
		{"failed without a permanent error", "failed", in(jobs.StateFailed, 1, 7, ""), []event{s, s1, endOf(s1, 20, transient)}},
		{"failed with a permanent error", "", in(jobs.StateFailed, 1, 7, ""), []event{s, s1, endOf(s1, 20, permanent), waitOf(one, 30, "", isFailed)}},
		{"refused, but it ran", "refused joined", done, []event{failing(submitOf(one, 0, 5), full), s1, w1}},
		{"started before any Submit", "joined", done, []event{startOf(one, -10, "worker-1.1", 1, 7), endOf(startOf(one, -10, "worker-1.1", 1, 7), -5, fine), s}},
		{"a wait for a missing job", "waiter", done, []event{s, s1, w1, waitOf(one, 30, "", notFound)}},
		{"a cancel without a Cancel call", "waiter", gaveUp, []event{s, s1, endOf(s1, 20, stopped), waitOf(one, 30, "", isCancel)}},
		{"another error", "error", done, []event{failing(submitOf(one, 0, 5), "other: what"), s, s1, w1}},
		{"two IDs", "key", in(jobs.StateDone, 1, 7, "r7"), []event{s, s1, w1, {At: 30, From: 29, What: submitted, Name: one, ID: "other", Joined: true, Result: "disk", By: "submitter-1.1"}}},
		{"a life beside another", "key", in(jobs.StateDone, 1, 9, "r9"),
			[]event{k, k1, endOf(k1, 20, transient), submitOf(key, 50, 55), k2, endOf(k2, 110, fine)}},
		{"a life after a cancel", "", in(jobs.StateDone, 1, 9, "r9"),
			[]event{k, k1, cancelOf(key, 12, 14, ""), endOf(k1, 20, stopped), submitOf(key, 50, 55), k2, endOf(k2, 110, fine)}},
		{"joined a job that was not submitted", "joined", in(jobs.StateDone, 1, 7, "r7"), []event{joining(k), k1, endOf(k1, 20, fine)}},
		{"joined a job whose Submit did not return", "", in(jobs.StateDone, 1, 7, "r7"), []event{unanswered(submitOf(key, -2, 0)), joining(k), k1, endOf(k1, 20, fine)}},
		{"more lives than Submits", "attempts", in(jobs.StateDone, 1, 9, "r9"),
			[]event{k, k1, endOf(k1, 20, transient), k2, endOf(k2, 110, fine)}},
	} {
		ends := map[string]final{}
		for _, e := range test.events {
			if e.ID != "" {
				ends[e.ID] = test.end
			}
		}
		events := append([]event{begin}, test.events...)
		slices.SortStableFunc(events, func(a, b event) int { return int(a.At - b.At) })
		if got := strings.Join(judged(t, ends, events...), " "); got != test.want {
			t.Errorf("%s: broken rules %q; want %q", test.name, got, test.want)
		}
	}
}

// TestRulesOfPlans tests the rules for jobs that need a certain plan.
func TestRulesOfPlans(t *testing.T) {
	begin := fault(-100_000, up, "server-1.1")
	check := func(what, want string, ends map[string]final, events ...event) {
		t.Helper()
		if got := strings.Join(judged(t, ends, append([]event{begin}, events...)...), " "); got != want {
			t.Errorf("%s: broken rules %q; want %q", what, got, want)
		}
	}
	run := func(name string, at int64) []event {
		s := startOf(name, at, "worker-1.1", 1, 7)
		return []event{submitOf(name, 0, 5), s, endOf(s, at+1, fine)}
	}
	done := func(name string) map[string]final {
		return map[string]final{"id-" + name: in(jobs.StateDone, 1, 7, "r7")}
	}

	delayed := with("a-", func(o jobs.SubmitOptions) bool {
		return o.Delay > 100*time.Millisecond && o.Deadline == 0 && o.Serial == ""
	})
	check("before its delay", "delay", done(delayed), run(delayed, 50)...)
	check("after its delay", "", done(delayed), run(delayed, 2100)...)

	due := with("a-", func(o jobs.SubmitOptions) bool { return o.Delay == 0 && o.Deadline > 0 && o.Serial == "" })
	check("in time", "", done(due), run(due, 10)...)
	check("after its deadline", "deadline", done(due), run(due, 5000)...)
	dies := func(pauses ...event) []event { // before its Submit returns
		events := append([]event{unanswered(submitOf(due, 0, 5))}, pauses...)
		events = append(events, fault(5, killed, "submitter-3.1"), fault(6, gone, "submitter-3.1"), fault(4900, continued, "server-1.1"))
		return append(events, run(due, 5000)[1:]...)
	}
	check("accepted by a server that was stopped until then", "", done(due), dies(fault(1, paused, "server-1.1"))...)
	check("accepted by a server that was stopped later", "deadline", done(due), dies(fault(10, paused, "server-1.1"))...)
	expired := final{status: jobs.Status{State: jobs.StateFailed, Error: jobs.ErrExpired.Error()}}
	check("expired", "", map[string]final{"id-" + due: expired}, submitOf(due, 0, 5))
	expired.status.Fence = 7
	check("expired, but started", "failed", map[string]final{"id-" + due: expired}, run(due, 10)[:2]...)
	check("expired without a deadline", "failed", map[string]final{"id-" + one: expired}, submitOf(one, 0, 5))

	serial := func(o jobs.SubmitOptions) bool { return o.Serial == "serial-1" && o.Delay == 0 && o.Deadline == 0 }
	x, y := with("x-", serial), with("y-", serial)
	sx, sy := startOf(x, 10, "worker-1.1", 1, 7), startOf(y, 20, "worker-2.1", 1, 7)
	both := map[string]final{"id-" + x: in(jobs.StateDone, 1, 7, "r7"), "id-" + y: in(jobs.StateDone, 1, 7, "r7")}
	check("two of one Serial at a time", "serial", both,
		submitOf(x, 0, 5), submitOf(y, 0, 6), sx, sy, endOf(sx, 30, fine), endOf(sy, 40, fine))
	check("one after another", "", both,
		submitOf(x, 0, 5), submitOf(y, 0, 6), sx, endOf(sx, 15, fine), sy, endOf(sy, 40, fine))

	check("a process that exited", "died", nil, fault(0, up, "worker-1.1"), fault(5, gone, "worker-1.1"))
	check("a process that was killed", "", nil, fault(0, up, "worker-1.1"), fault(5, killed, "worker-1.1"), fault(6, gone, "worker-1.1"))
}

func TestRunRefusesOptions(t *testing.T) {
	for _, o := range []Options{
		{}, {Mode: "other", For: 1, Dir: "d"}, {Mode: Single, Dir: "d"}, {Mode: Single, For: 1},
		{Mode: Single, For: 1, Dir: "d", Durability: jobs.DurabilityMajority}, {Mode: Cluster, For: 1, Dir: "d", Durability: jobs.DurabilityDisk},
	} {
		if _, err := Run(context.Background(), o); err == nil {
			t.Errorf("Run(%+v) = nil; want an error", o)
		}
	}
}
