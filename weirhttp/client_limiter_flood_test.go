package weirhttp_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// as returns a request from addr, with the given user in X-User.
func as(addr, user string) *http.Request {
	r := from(addr)
	r.Header.Set("X-User", user)
	return r
}

const flooder = "198.51.100.66:1000"

// byUser returns a ClientLimiter that keys clients by a field that they can make up.
func byUser(t *testing.T, rate, burst int) *weirhttp.ClientLimiter {
	t.Helper()
	return newClientLimiter(t, weirhttp.ClientLimiterOptions{
		Rate: rate, Per: time.Hour, Burst: burst, Keys: 1000,
		Key: weirhttp.ByHeader("X-User", weirhttp.ByAddress(nil)),
	})
}

func TestH13_NewKeysDoNotRefillASpentBucket(t *testing.T) {
	for _, tt := range []struct{ burst, flood int }{{1, 1500}, {1, 100_000}, {2, 1500}, {10, 5000}} {
		t.Run(fmt.Sprintf("burst %d, %d keys", tt.burst, tt.flood), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { spentStaysSpent(t, tt.burst, tt.flood) })
		})
	}
}

func spentStaysSpent(t *testing.T, burst, flood int) {
	d := byUser(t, 1, burst)
	spent := []*http.Request{as(flooder, "ada"), as("192.0.2.9:1", "bob"), from("192.0.2.1:1"), from("[2001:db8::1]:1")}
	for _, r := range spent {
		for range burst {
			admitted(t, d, r, 0)
		}
		admitted(t, d, r, time.Hour)
	}
	half := as("192.0.2.9:1", "half") // has spent some tokens, and is not rejected yet
	for range burst / 2 {
		admitted(t, d, half, 0)
	}
	let := 0
	for i := range flood {
		if admit(t, d, as(flooder, fmt.Sprint("made up ", i))) == 0 {
			let++
		}
	}
	if most := 1000 + burst; let > most {
		t.Errorf("one address had %d of %d made-up keys admitted; want at most %d", let, flood, most)
	}
	for _, r := range spent {
		admitted(t, d, r, time.Hour)
	}
	for range burst - burst/2 {
		admitted(t, d, half, 0)
	}
	if burst > 1 && admit(t, d, half) == 0 {
		t.Error("a key that had spent some of its tokens got them back")
	}
}

// A key keeps its debt under a flood of addresses too: a client with a large IPv6
// network can make up addresses.
func TestH13_NewAddressesDoNotRefillASpentBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newClientLimiter(t, weirhttp.ClientLimiterOptions{Rate: 1, Per: time.Hour, Keys: 1000})
		admitted(t, d, from("192.0.2.1:1"), 0)
		for i := range 100_000 {
			d.Admit(from(fmt.Sprintf("[2001:db8:%x:%x::1]:1", i>>16, i&0xffff)), nil)
		}
		admitted(t, d, from("192.0.2.1:1"), time.Hour)
	})
}

func TestH13_NewClientsGetInDuringAFlood(t *testing.T) {
	for _, burst := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			d := byUser(t, 1, burst)
			for i := range 5000 {
				d.Admit(as(flooder, fmt.Sprint("made up ", i)), nil)
				if i%10 != 0 {
					continue
				}
				// With a new user, and without one.
				n := i / 10
				for _, r := range []*http.Request{
					as(fmt.Sprintf("192.0.2.%d:1", n%250), fmt.Sprint("new ", n)),
					from(fmt.Sprintf("203.0.113.%d:1", n%250)),
				} {
					if n < 250 {
						admitted(t, d, r, 0)
					}
				}
			}
			if admit(t, d, as(flooder, "one more")) == 0 {
				t.Error("the flood is still admitted")
			}
		})
	}
}

// A flood leaves nothing behind: once the buckets are full again, each new key has
// its own.
func TestH13_AFloodEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := byUser(t, 1, 2)
		for i := range 3000 {
			d.Admit(as(flooder, fmt.Sprint(i)), nil)
		}
		admitted(t, d, as(flooder, "late"), time.Hour)
		time.Sleep(time.Hour) // each of its keys had sent one request
		for i := range 900 {
			r := as(flooder, fmt.Sprint("late ", i))
			admitted(t, d, r, 0)
			admitted(t, d, r, 0)
			if wait := admit(t, d, r); wait != time.Hour {
				t.Fatalf("key %d waits %v; want an hour", i, wait)
			}
		}
	})
}

// Behind a proxy all connections have one address. Client returns the address of a
// new key instead.
func TestH13_ClientTellsWhoFloods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := func(r *http.Request) netip.Addr {
			a, _ := netip.ParseAddr(r.Header.Get("X-Forwarded-For"))
			return a
		}
		d := newClientLimiter(t, weirhttp.ClientLimiterOptions{
			Rate: 1, Per: time.Hour, Keys: 1000, Client: told,
			Key: weirhttp.ByHeader("X-User", weirhttp.ByAddress(told)),
		})
		via := func(client, user string) *http.Request {
			r := as("10.0.0.1:1", user)
			r.Header.Set("X-Forwarded-For", client)
			return r
		}
		for i := range 5000 {
			d.Admit(via("198.51.100.66", fmt.Sprint(i)), nil)
		}
		admitted(t, d, via("198.51.100.66", "more"), time.Hour)
		admitted(t, d, via("192.0.2.1", "ada"), 0)
		admitted(t, d, via("192.0.2.2", "bob"), 0)
		admitted(t, d, via("192.0.2.2", "bob"), time.Hour)
		// If Client returns no address, that of the connection is used.
		admitted(t, d, via("unknown", "eve"), 0)
		admitted(t, d, via("hidden", "eve 2"), time.Hour)

		byClient := newClientLimiter(t, weirhttp.ClientLimiterOptions{Rate: 1, Per: time.Hour, Client: told})
		admitted(t, byClient, via("192.0.2.1", ""), 0)
		admitted(t, byClient, via("192.0.2.2", ""), 0)
		admitted(t, byClient, via("192.0.2.1", ""), time.Hour)
	})
}
