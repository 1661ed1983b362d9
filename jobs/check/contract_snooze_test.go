package jobs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
)

// J22: A handler can hand its job back for a stated time. That is neither an attempt
// that counts nor a failure, even if only one attempt is allowed.
func TestJ22_ASnoozeCountsAsNoAttempt(t *testing.T) {
	for _, attempts := range []int{1, 2} {
		r := contractInOneTest(t)
		q := r.queue(jobs.QueueOptions{MaxAttempts: attempts})
		var log contractLog
		const nap = 150 * time.Millisecond
		w := r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
			log.add(j)
			if j.Snoozes < 3 {
				return "", jobs.Snooze(nap)
			}
			return "done", nil
		})
		h := r.submit(q, "a", jobs.SubmitOptions{})
		r.eventually("the job is snoozed", func() bool {
			s := r.status(h)
			return s.State == jobs.StateRetrying && s.Snoozes > 0 && s.Error == "" && !s.NotBefore.IsZero() || s.State == jobs.StateDone
		})
		r.wantResult(h, "done")
		if len(log.at) != 4 {
			t.Fatalf("%d attempts; want 4", len(log.at))
		}
		for i := 1; i < len(log.at); i++ {
			if d := log.at[i].Sub(log.at[i-1]); d < nap-10*time.Millisecond {
				t.Errorf("wait after attempt %d = %v; want at least %v", i, d, nap)
			}
		}
		if s := r.status(h); s.Snoozes != 3 || s.Attempt != 4 || len(s.History) != 0 {
			t.Errorf("Status = %+v; want 3 snoozes, attempt 4 and no failed attempt", s)
		}
		if s := w.Stats(); s.Snoozed != 3 || s.Retried != 0 || s.HandedBack != 0 {
			t.Errorf("Stats = %+v; want 3 snoozed, and none retried or handed back", s)
		}
	}
}

// J22: MaxSnoozes bounds the snoozes of a job. From then on each is a failed attempt,
// so a job that is never ready dies.
func TestJ22_SnoozesAreBounded(t *testing.T) {
	for bound, want := range map[int]int{2: 4, -1: 2} { // attempts in all
		r := contractInOneTest(t)
		q := r.queue(jobs.QueueOptions{MaxAttempts: 2, MaxSnoozes: bound})
		var log contractLog
		r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
			log.add(j)
			return "", jobs.Snooze(time.Millisecond)
		})
		h := r.submit(q, "a", jobs.SubmitOptions{})
		if e := r.wantError(h, jobs.StateDead); !strings.Contains(e.Message, "MaxSnoozes") {
			t.Errorf("MaxSnoozes %d: the error is %q; want one that names the bound", bound, e.Message)
		}
		if s := r.status(h); s.Snoozes != max(bound, 0) || s.Attempt != want || len(s.History) != 2 {
			t.Errorf("MaxSnoozes %d: Status = %+v; want %d attempts, of which 2 failed", bound, s, want)
		}
	}
}

// J22, J16: A job whose attempts have all been snoozed has not begun. If it cannot
// start again before its deadline, it fails at once; if an attempt has failed
// before, the deadline was met.
func TestJ22_ASnoozeDoesNotLiftTheDeadline(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
		switch {
		case j.Input == "never ready":
			return "", jobs.Snooze(20 * time.Millisecond)
		case j.Input == "for an hour":
			return "", jobs.Snooze(time.Hour)
		case j.Attempt == 1:
			return "", errors.New("an attempt that counts")
		case j.Snoozes == 0:
			return "", jobs.Snooze(1200 * time.Millisecond)
		}
		return "done", nil
	})
	o := jobs.SubmitOptions{Deadline: time.Second}
	never, hour, begun := r.submit(q, "never ready", o), r.submit(q, "for an hour", o), r.submit(q, "begun", o)
	for _, h := range []*stringHandle{never, hour} {
		if e := r.wantError(h, jobs.StateFailed); e.Message != jobs.ErrExpired.Error() {
			t.Errorf("the error is %q; want ErrExpired's", e.Message)
		}
	}
	r.wantResult(begun, "done")
}

// J22: A snooze after AttemptTimeout is a timeout, and one that is canceled has no
// effect.
func TestJ22_ASnoozeThatIsLate(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{AttemptTimeout: 30 * time.Millisecond, MaxAttempts: 1})
	r.work(q, jobs.WorkerOptions{}, func(ctx context.Context, j *stringJob) (string, error) {
		<-ctx.Done()
		return "", jobs.Snooze(time.Millisecond)
	})
	if e := r.wantError(r.submit(q, "a", jobs.SubmitOptions{}), jobs.StateDead); !strings.Contains(e.Message, "timed out") {
		t.Errorf("the error is %q; want that of the timeout", e.Message)
	}
}
