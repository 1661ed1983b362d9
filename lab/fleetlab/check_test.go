package fleetlab_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/lab/fleetlab"
)

var bounds = fleetlab.Bounds{Memory: time.Second, CutOff: 10 * time.Second}

// change changes a key at the source.
func change(c *fleetlab.Checker, key string) { c.Changing(key)() }

func answer(version int64) fleetlab.Answer {
	return fleetlab.Answer{Key: "k", Version: version, Instance: "i1"}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name  string
		story func(c *fleetlab.Checker) // begins with version 1
		a     fleetlab.Answer
		wrong string // empty: nothing wrong
	}{
		{"what is there", func(*fleetlab.Checker) {}, answer(1), ""},
		{"another key's value", func(*fleetlab.Checker) {}, fleetlab.Answer{Key: "other", Version: 1}, `with the value of "other"`},
		{"no version", func(*fleetlab.Checker) {}, answer(0), "version 0"},
		{"a version that is not made yet", func(*fleetlab.Checker) {}, answer(2), "there are 1"},
		{"the version that is being made", func(c *fleetlab.Checker) { c.Changing("k") }, answer(2), ""},
		{"the newest", func(c *fleetlab.Checker) { change(c, "k"); time.Sleep(time.Hour) }, answer(2), ""},
		{"at memory's cap", func(c *fleetlab.Checker) {
			change(c, "k")
			c.Invalidating("k")()
			time.Sleep(time.Second)
		}, answer(1), ""},
		{"beyond memory's cap", func(c *fleetlab.Checker) {
			change(c, "k")
			c.Invalidating("k")()
			time.Sleep(time.Second + 1)
		}, answer(1), "after it was invalidated; the bound is 1s"},
		{"the first invalidation counts", func(c *fleetlab.Checker) {
			change(c, "k")
			c.Invalidating("k")()
			time.Sleep(time.Second)
			c.Invalidating("k")()
			time.Sleep(time.Nanosecond)
		}, answer(1), "after it was invalidated"},
		{"an invalidation before the change says nothing", func(c *fleetlab.Checker) {
			acknowledged := c.Invalidating("k")
			change(c, "k")
			acknowledged()
			time.Sleep(10 * time.Second)
		}, answer(1), ""},
		{"another key's invalidation says nothing", func(c *fleetlab.Checker) {
			change(c, "k")
			c.Invalidating("other")()
			time.Sleep(10 * time.Second)
		}, answer(1), ""},
		{"beyond the windows", func(c *fleetlab.Checker) { change(c, "k"); time.Sleep(10*time.Second + 1) }, answer(1), "after it was replaced; the bound is 10s"},
		{"cut off since the invalidation", func(c *fleetlab.Checker) {
			change(c, "k")
			c.Invalidating("k")()
			time.Sleep(time.Second)
			mended := c.Cut("")
			time.Sleep(time.Second)
			mended()
			time.Sleep(time.Second)
		}, answer(1), ""},
		{"cut off, beyond the windows", func(c *fleetlab.Checker) {
			change(c, "k")
			c.Invalidating("k")()
			c.Cut("i1")
			time.Sleep(10*time.Second + 1)
		}, answer(1), "the bound is 10s"},
		{"another instance was cut off", func(c *fleetlab.Checker) {
			change(c, "k")
			c.Invalidating("k")()
			c.Cut("i2")
			time.Sleep(time.Second + 1)
		}, answer(1), "the bound is 1s"},
		{"cut off before the invalidation", func(c *fleetlab.Checker) {
			c.Cut("")()
			time.Sleep(time.Nanosecond)
			change(c, "k")
			c.Invalidating("k")()
			time.Sleep(time.Second + 1)
		}, answer(1), "the bound is 1s"},
		{"invalidated again after the cut", func(c *fleetlab.Checker) {
			change(c, "k")
			c.Invalidating("k")()
			c.Cut("")()
			time.Sleep(time.Nanosecond)
			c.Invalidating("k")()
			time.Sleep(time.Second + 1)
		}, answer(1), "the bound is 1s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := fleetlab.NewChecker(bounds)
				tt.story(c)
				c.Check("k", tt.a, time.Now())
				v := c.Verdict()
				got := strings.Join(v.Wrong, "")
				if v.Answers != 1 || (v.Wrongs == 0) != (tt.wrong == "") || !strings.Contains(got, tt.wrong) {
					t.Errorf("Check(%+v) found %q; want %q", tt.a, got, tt.wrong)
				}
			})
		})
	}
}

func TestVerdictTellsTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fleetlab.NewChecker(bounds)
		change(c, "k")
		time.Sleep(3 * time.Second)
		c.Check("k", answer(1), time.Now())
		c.Invalidating("k")()
		time.Sleep(time.Second / 2)
		c.Check("k", answer(1), time.Now())
		c.Check("k", answer(2), time.Now())
		if v := c.Verdict(); v.Wrongs != 0 || v.Oldest != time.Second/2 || v.OldestCut != 3*time.Second {
			t.Errorf("Verdict = %+v; want 0.5 s after the invalidation, 3 s after the change", v)
		}
	})
}
