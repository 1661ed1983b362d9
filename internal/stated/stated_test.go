package stated_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/internal/stated"
)

func TestH34NumbersThatCannotBeMeantAreNone(t *testing.T) {
	for s, want := range map[string]int{
		"0": 0, "7": 7, "007": 7, "1073741824": stated.Most,
		"": -1, "1073741825": -1, "99999999999999999999": -1, "1e18": -1, "-1": -1, "+1": -1, "1.5": -1, " 1": -1, "1_0": -1, "0x1": -1,
	} {
		n, ok := stated.Whole(s)
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("Whole(%q) = %d, %v; want %d", s, n, ok, want)
		}
	}
	for s, want := range map[string]int{
		"0": 0, "7": 7, "2.5": 3, "1e3": 1000, "1073741824": stated.Most, "1073741823.5": stated.Most, "1e-400": 0,
		"": -1, "1073741824.5": -1, "1e10": -1, "1e18": -1, "1e400": -1, "99999999999999999999": -1, "-1": -1, "-1e400": -1,
		"NaN": -1, "Inf": -1, "infinity": -1, "0x1": -1, "1_0": -1,
	} {
		n, ok := stated.RoundedUp(s)
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("RoundedUp(%q) = %d, %v; want %d", s, n, ok, want)
		}
	}
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	const most = stated.MostSeconds * time.Second
	for s, want := range map[string]time.Duration{
		"0": 0, "120": 2 * time.Minute, "2147483647": most,
		"Sat, 28 Nov 2026 12:01:00 GMT": time.Minute, "Sat, 28 Nov 2026 11:00:00 GMT": 0,
		"": -1, "soon": -1, "-1": -1, "1.5": -1, "1e3": -1, "-99999999999999999999": -1,
		"2147483648": -most, "99999999999999999999": -most, "Fri, 31 Dec 9999 23:59:59 GMT": most,
	} {
		d, ok := stated.RetryAfter(s, now)
		if !ok {
			d = min(-d, -1)
		}
		if d != want {
			t.Errorf("RetryAfter(%q) = %v, %v; want %v", s, d, ok, want)
		}
	}
	for s, want := range map[string]time.Duration{
		"0": 0, "1.5": 1500 * time.Millisecond, "6m0s": 6 * time.Minute, "100000000": 1e8 * time.Second, "1795867260": time.Minute,
		"1e18": most, "1e300": most, "99999999999999999999": most, "2000000h": most,
		"": -1, "-1": -1, "-1s": -1, "1795867199": -1, "1e400": -1, "NaN": -1, "Inf": -1,
	} {
		d, ok := stated.Reset(s, now)
		if !ok {
			d = -1
		}
		if d != want {
			t.Errorf("Reset(%q) = %v, %v; want %v", s, d, ok, want)
		}
	}
}
