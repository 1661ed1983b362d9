package jobs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/limit"
)

// J7: the wait doubles after each attempt, up to RetryMax, less a random share of up
// to a fifth. An error can set it, and a limiter's RetryAfter is used as it is (H46).
func TestDelay(t *testing.T) {
	const second = time.Second
	o := jobs.QueueOptions{RetryInitial: second, RetryMax: 5 * second}
	no := errors.New("no")
	for _, row := range []struct {
		spent       int
		err         error
		least, most time.Duration
	}{
		{1, no, second * 4 / 5, second},
		{2, no, second * 8 / 5, 2 * second},
		{3, no, second * 16 / 5, 4 * second},
		{4, no, 4 * second, 5 * second},
		{1000, no, 4 * second, 5 * second},
		{3, jobs.RetryIn(no, 7*second), 7 * second, 7 * second},
		{3, jobs.RetryIn(no, -1), 0, 0},
		{3, jobs.RetryIn(no, 2*jobs.MaxDelay), jobs.MaxDelay, jobs.MaxDelay},
		{3, &limit.Error{RetryAfter: 10 * second}, 10 * second, 10 * second},
		{3, weir.RetryAfter(no, 10*second), 10*second - second/10, 12 * second},
	} {
		drawn := map[time.Duration]bool{}
		for range 100 {
			d := jobs.Delay(o, row.spent, row.err)
			if d < row.least || d > row.most {
				t.Errorf("the wait after %d attempts, the last with %v, is %v; want %v to %v", row.spent, row.err, d, row.least, row.most)
			}
			drawn[d] = true
		}
		if row.least < row.most && len(drawn) < 50 {
			t.Errorf("after %d attempts, the last with %v, 100 waits have %d different values; want random ones", row.spent, row.err, len(drawn))
		}
	}
}

// A source that is down for hours costs no job that can be retried: with the defaults
// the waits add up to hours, even if each is a fifth shorter.
func TestJ7_DefaultsOutlastAnOutageOfHours(t *testing.T) {
	o := jobs.QueueOptions{}.WithDefaults()
	least := time.Duration(0)
	for spent := 1; spent < o.MaxAttempts; spent++ {
		shortest := time.Duration(1<<63 - 1)
		for range 100 {
			shortest = min(shortest, jobs.Delay(o, spent, errors.New("down")))
		}
		least += shortest
	}
	if least < 8*time.Hour {
		t.Errorf("with the default options the shortest waits of a job add up to %v; want at least 8h", least)
	}
	if o.MaxAge < 2*least || o.MaxCrashes > 5 {
		t.Errorf("MaxAge %v, MaxCrashes %d; want MaxAge at least twice the retries' total, and MaxCrashes at most 5", o.MaxAge, o.MaxCrashes)
	}
	if one := (jobs.QueueOptions{MaxAttempts: 1}).WithDefaults(); one.MaxCrashes != 1 {
		t.Errorf("MaxCrashes of a job with one attempt = %d; want 1", one.MaxCrashes)
	}
}
