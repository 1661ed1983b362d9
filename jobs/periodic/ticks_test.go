package periodic_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/adhocore/gronx"

	"github.com/weir-go/weir/jobs/periodic"
)

// ticks returns the first n ticks after a time, as texts with the offset.
func ticks(t *testing.T, spec, zone, after string, n int) []string {
	t.Helper()
	from, err := time.Parse(time.RFC3339, after)
	if err != nil {
		t.Fatal(err)
	}
	all, err := periodic.Ticks(spec, zone, from, n)
	if err != nil {
		t.Fatalf("Ticks(%q, %q) = %v; want ticks", spec, zone, err)
	}
	var texts []string
	for _, tick := range all {
		texts = append(texts, tick.Format(time.RFC3339))
	}
	return texts
}

// Each row is an expression, and its first ticks after a time.
func TestP5_TicksOfExpressions(t *testing.T) {
	for _, row := range []struct{ spec, zone, after, want string }{
		// Descriptors and @every.
		{"@hourly", "", "2026-11-25T10:00:00Z", "2026-11-25T11:00:00Z 2026-11-25T12:00:00Z"},
		{"@daily", "Europe/Berlin", "2026-11-25T10:00:00Z", "2026-11-26T00:00:00+01:00 2026-11-27T00:00:00+01:00"},
		{"@midnight", "", "2026-11-25T00:00:00Z", "2026-11-26T00:00:00Z"},
		{"@Weekly", "", "2026-11-25T10:00:00Z", "2026-11-29T00:00:00Z 2026-12-06T00:00:00Z"},
		{"@monthly", "", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z 2027-02-01T00:00:00Z"},
		{"@yearly", "", "2026-11-25T10:00:00Z", "2027-01-01T00:00:00Z 2028-01-01T00:00:00Z"},
		{"@annually", "", "2026-11-25T10:00:00Z", "2027-01-01T00:00:00Z"},
		{"@every 90s", "", "2026-11-25T00:00:00Z", "2026-11-25T00:01:30Z 2026-11-25T00:03:00Z"},
		{"@every 90s", "", "2026-11-25T00:01:29Z", "2026-11-25T00:01:30Z"},
		{"@every 1h30m", "Europe/Berlin", "2026-11-25T00:00:00Z", "2026-11-25T01:30:00Z 2026-11-25T03:00:00Z"},
		{"@every 7h", "", "1970-01-01T00:00:00Z", "1970-01-01T07:00:00Z 1970-01-01T14:00:00Z"},
		{"@every 7h", "", "1969-12-31T16:30:00Z", "1969-12-31T17:00:00Z 1970-01-01T00:00:00Z"},
		// Five fields: numbers, lists, ranges, steps, names.
		{"0 3 * * *", "", "2026-11-25T03:00:00Z", "2026-11-26T03:00:00Z 2026-11-27T03:00:00Z"},
		{"*/20 * * * *", "", "2026-11-25T10:00:01Z", "2026-11-25T10:20:00Z 2026-11-25T10:40:00Z 2026-11-25T11:00:00Z"},
		{"5/25 * * * *", "", "2026-11-25T10:00:00Z", "2026-11-25T10:05:00Z 2026-11-25T10:30:00Z 2026-11-25T10:55:00Z 2026-11-25T11:05:00Z"},
		{"0 9-17/4 * * mon-fri", "", "2026-11-27T13:00:00Z", "2026-11-27T17:00:00Z 2026-11-30T09:00:00Z"},
		{"30 6 1,15 JAN,jul ?", "", "2026-11-25T10:00:00Z", "2027-01-01T06:30:00Z 2027-01-15T06:30:00Z 2027-07-01T06:30:00Z"},
		{"0 0 * * 7", "", "2026-11-25T10:00:00Z", "2026-11-29T00:00:00Z"},
		{"0 0 * * 5-7", "", "2026-11-25T10:00:00Z", "2026-11-27T00:00:00Z 2026-11-28T00:00:00Z 2026-11-29T00:00:00Z"},
		// Both day fields: either; with a *, both.
		{"0 0 13 * FRI", "", "2026-11-25T10:00:00Z", "2026-11-27T00:00:00Z 2026-12-04T00:00:00Z 2026-12-11T00:00:00Z 2026-12-13T00:00:00Z"},
		{"0 0 */2 * MON", "", "2026-11-25T10:00:00Z", "2026-12-07T00:00:00Z 2026-12-21T00:00:00Z"},
		{"0 0 29 2 */7", "", "2026-11-25T10:00:00Z", "2032-02-29T00:00:00Z 2060-02-29T00:00:00Z"},
		// The last day, the nearest working day, the last and the nth weekday.
		{"0 0 L * *", "", "2027-02-01T00:00:00Z", "2027-02-28T00:00:00Z 2027-03-31T00:00:00Z"},
		{"0 0 15W * *", "", "2026-11-01T00:00:00Z", "2026-11-16T00:00:00Z 2026-12-15T00:00:00Z"},
		{"0 0 1W * *", "", "2026-10-15T00:00:00Z", "2026-11-02T00:00:00Z 2026-12-01T00:00:00Z"},
		{"0 0 * * 5L", "", "2026-11-01T00:00:00Z", "2026-11-27T00:00:00Z 2026-12-25T00:00:00Z"},
		{"0 0 * * FRI#3", "", "2026-11-01T00:00:00Z", "2026-11-20T00:00:00Z 2026-12-18T00:00:00Z"},
		{"0 0 * * 7#1", "", "2026-11-02T00:00:00Z", "2026-12-06T00:00:00Z"},
		// Seconds, years, and days that are rare.
		{"*/30 * * * * *", "", "2026-11-25T10:00:00Z", "2026-11-25T10:00:30Z 2026-11-25T10:01:00Z"},
		{"15 0 12 1 1 ? 2027,2030", "", "2026-11-25T10:00:00Z", "2027-01-01T12:00:15Z 2030-01-01T12:00:15Z"},
		{"0 0 29 2 *", "", "2026-11-25T10:00:00Z", "2028-02-29T00:00:00Z 2032-02-29T00:00:00Z"},
		{"0 0 29 2 *", "", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"0 0 31 * *", "", "2026-11-25T10:00:00Z", "2026-12-31T00:00:00Z 2027-01-31T00:00:00Z 2027-03-31T00:00:00Z"},
	} {
		want := strings.Fields(row.want)
		if got := ticks(t, row.spec, row.zone, row.after, len(want)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q after %s: %v; want %v", row.spec, row.after, got, want)
		}
	}
}

// In spring an hour has no instants, in autumn an hour has two. The table has each kind
// of expression in each kind of change.
func TestP5_ChangesOfTheClock(t *testing.T) {
	for _, row := range []struct{ spec, zone, after, want string }{
		// A tick in the gap from 02:00 to 03:00 is at its end, and several are one.
		{"30 2 * * *", "Europe/Berlin", "2027-03-27T00:00:00Z", "2027-03-27T02:30:00+01:00 2027-03-28T03:00:00+02:00 2027-03-29T02:30:00+02:00"},
		{"*/15 2 * * *", "Europe/Berlin", "2027-03-27T23:00:00Z", "2027-03-28T03:00:00+02:00 2027-03-29T02:00:00+02:00"},
		{"30 2,3 * * *", "Europe/Berlin", "2027-03-27T23:00:00Z", "2027-03-28T03:00:00+02:00 2027-03-28T03:30:00+02:00 2027-03-29T02:30:00+02:00"},
		{"0 3 * * *", "Europe/Berlin", "2027-03-27T23:00:00Z", "2027-03-28T03:00:00+02:00 2027-03-29T03:00:00+02:00"},
		{"30 2 28 3 *", "Europe/Berlin", "2027-01-01T00:00:00Z", "2027-03-28T03:00:00+02:00 2028-03-28T02:30:00+02:00"},
		// A tick that exists twice is at its first instant.
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:59:00Z", "2026-10-26T02:30:00+01:00"},
		{"*/30 1,2,3 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T02:30:00+02:00 2026-10-25T03:00:00+01:00 2026-10-25T03:30:00+01:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", "2026-10-26T02:30:00+01:00"}, // after a time in the second 02:10
		{"0 3 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T03:00:00+01:00"},
		// An expression for every hour follows elapsed time.
		{"30 * * * *", "Europe/Berlin", "2027-03-28T00:00:00Z", "2027-03-28T01:30:00+01:00 2027-03-28T03:30:00+02:00"},
		{"30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T02:30:00+02:00 2026-10-25T02:30:00+01:00 2026-10-25T03:30:00+01:00"},
		{"*/30 * * * *", "America/New_York", "2026-11-01T05:00:00Z", "2026-11-01T01:30:00-04:00 2026-11-01T01:00:00-05:00 2026-11-01T01:30:00-05:00 2026-11-01T02:00:00-05:00"},
		{"0 */8 * * *", "America/New_York", "2024-11-03T04:30:00Z", "2024-11-03T08:00:00-05:00 2024-11-03T16:00:00-05:00"},
		{"0 2 * * 6", "America/Chicago", "2026-10-31T07:00:00Z", "2026-11-07T02:00:00-06:00"},
		// A gap at midnight, one of half an hour, and a day that does not exist.
		{"0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", "2018-11-04T01:00:00-02:00 2018-11-05T00:00:00-02:00"},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "2026-10-04T02:30:00+11:00 2026-10-05T02:15:00+11:00"},
		{"45 1 * * *", "Australia/Lord_Howe", "2027-04-03T00:00:00Z", "2027-04-04T01:45:00+11:00 2027-04-05T01:45:00+10:30"},
		{"0 12 * * *", "Pacific/Apia", "2011-12-29T23:00:00Z", "2011-12-31T00:00:00+14:00 2011-12-31T12:00:00+14:00"},
		{"0 * * * *", "Pacific/Apia", "2011-12-30T08:30:00Z", "2011-12-29T23:00:00-10:00 2011-12-31T00:00:00+14:00"},
	} {
		want := strings.Fields(row.want)
		if got := ticks(t, row.spec, row.zone, row.after, len(want)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q in %s after %s:\n got %v\nwant %v", row.spec, row.zone, row.after, got, want)
		}
	}
}

// Over ten years, a daily expression has one tick on each day of each zone, at its time
// or at the end of the gap, and an hourly one a tick in each hour of elapsed time.
func TestP5_EachDayHasOneTick(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu", "America/Havana"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{"0 0", "30 1", "15 2", "59 23"} {
			after, day := time.Date(2015, 1, 1, 0, 0, 0, 0, zone).Add(-1), time.Date(2015, 1, 1, 12, 0, 0, 0, time.UTC)
			for range 10 {
				all, err := periodic.Ticks(at+" * * *", name, after, 365)
				if err != nil {
					t.Fatal(err)
				}
				for _, tick := range all {
					y, m, d := tick.Date()
					if wy, wm, wd := day.Date(); y != wy || m != wm || d != wd {
						t.Fatalf("%s * * * in %s: a tick at %v; want one on %v", at, name, tick, day)
					}
					day, after = day.AddDate(0, 0, 1), tick
				}
			}
		}
	}
	hourly, err := periodic.Ticks("0 * * * *", "Europe/Berlin", time.Date(2026, 10, 20, 0, 0, 0, 0, time.UTC), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for i, tick := range hourly[1:] {
		if d := tick.Sub(hourly[i]); d != time.Hour {
			t.Errorf("%v follows %v after %v; want an hour", tick, hourly[i], d)
		}
	}
}

// Without changes of the clock, the ticks are those that gronx finds by another search.
func TestTicksAgreeWithTheParser(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	compared := 0
	for range 400 {
		spec := strings.Join([]string{
			pick("0", "*/30", "5,10,50"), pick("*", "0", "*/7", "10-20/3", "59"), pick("*", "3", "*/5", "0,23"),
			pick("*", "1", "31", "L", "15W", "1-7", "*/9"), pick("*", "2", "1-6", "NOV"), pick("*", "1", "FRI#2", "5L", "1-5", "6,7"),
		}, " ")
		after := time.Date(2026, time.Month(1+r.IntN(12)), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), 0, time.UTC)
		got, err := periodic.Ticks(spec, "", after, 3)
		if err != nil {
			continue // such as 31 February; the table of faults has these
		}
		for _, tick := range got {
			want, err := gronx.NextTickAfter(spec, after, false)
			if err != nil {
				break // gronx gives up after 500 steps
			}
			if !tick.Equal(want) {
				t.Fatalf("%q after %v: %v; gronx has %v", spec, after, tick, want)
			}
			after = tick
			compared++
		}
	}
	if compared < 600 {
		t.Errorf("%d ticks compared; want at least 600", compared)
	}
}
