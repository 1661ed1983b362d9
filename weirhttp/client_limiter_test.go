package weirhttp_test

import (
	"errors"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

func newClientLimiter(t *testing.T, o weirhttp.ClientLimiterOptions) *weirhttp.ClientLimiter {
	t.Helper()
	d, err := weirhttp.NewClientLimiter(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// from returns a request from addr.
func from(addr string) *http.Request {
	return &http.Request{RemoteAddr: addr, Header: http.Header{}}
}

// admit calls d.Admit, and returns 0 if r was admitted, else RetryAfter.
func admit(t *testing.T, d *weirhttp.ClientLimiter, r *http.Request) time.Duration {
	t.Helper()
	err := d.Admit(r, nil)
	if err == nil {
		return 0
	}
	var e *limit.Error
	if !errors.As(err, &e) || e.Reason != limit.RateExceeded || e.RetryAfter <= 0 {
		t.Fatalf("Admit = %v; want a *limit.Error, rate exceeded, with RetryAfter", err)
	}
	return e.RetryAfter
}

// admitted checks the result for r: want is 0 if r is to be admitted, else
// RetryAfter.
func admitted(t *testing.T, d *weirhttp.ClientLimiter, r *http.Request, want time.Duration) {
	t.Helper()
	if got := admit(t, d, r); got != want {
		t.Errorf("Admit(%s) returned RetryAfter %v; want %v", r.RemoteAddr, got, want)
	}
}

func TestH13_EachClientHasItsOwnRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newClientLimiter(t, weirhttp.ClientLimiterOptions{Rate: 2, Burst: 3})
		a, b := from("192.0.2.1:1000"), from("192.0.2.2:1000")
		for range 3 {
			admitted(t, d, a, 0)
		}
		admitted(t, d, a, 500*time.Millisecond)
		admitted(t, d, from("192.0.2.1:2000"), 500*time.Millisecond) // another connection
		admitted(t, d, b, 0)

		time.Sleep(499 * time.Millisecond)
		admitted(t, d, a, time.Millisecond) // the rejected request cost nothing
		time.Sleep(time.Millisecond)
		admitted(t, d, a, 0)
		admitted(t, d, a, 500*time.Millisecond)
		time.Sleep(time.Hour)
		for range 3 { // no more than the burst is saved
			admitted(t, d, a, 0)
		}
		admitted(t, d, a, 500*time.Millisecond)
	})
}

func TestH13_RefusalNamesThePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newClientLimiter(t, weirhttp.ClientLimiterOptions{Rate: 1, Per: time.Minute, Name: "per-minute"})
		admitted(t, d, from("192.0.2.1:1"), 0)
		time.Sleep(15 * time.Second)
		err := d.Admit(from("192.0.2.1:1"), nil)
		want := limit.Error{Limiter: "per-minute", Reason: limit.RateExceeded, RetryAfter: 45 * time.Second}
		if e := (*limit.Error)(nil); !errors.As(err, &e) || *e != want || !errors.Is(err, limit.ErrLimited) {
			t.Errorf("Admit = %v; want %v", err, &want)
		}
	})
}

// TestH13_RatesAreExact compares a ClientLimiter with a bucket in rational numbers,
// at rates that are not a whole number of nanoseconds.
func TestH13_RatesAreExact(t *testing.T) {
	for seed := range histories.Seeds(t, 20, 100) {
		// One bubble for each: its clock ends after 292 years.
		synctest.Test(t, func(t *testing.T) { exactRate(t, seed) })
	}
}

func exactRate(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	o := weirhttp.ClientLimiterOptions{
		Rate:  1 + rng.IntN(1<<rng.IntN(30)),
		Per:   1 + time.Duration(rng.Int64N(1<<rng.IntN(50))),
		Burst: 1 + rng.IntN(20),
	}
	o.Rate = min(o.Rate, int(o.Per)) // so that there are rejections
	d := newClientLimiter(t, o)
	r := from("192.0.2.1:1")
	rate := big.NewRat(int64(o.Rate), int64(o.Per)) // per nanosecond
	burst, one := big.NewRat(int64(o.Burst), 1), big.NewRat(1, 1)
	tokens := new(big.Rat).Set(burst)
	for i := range 300 {
		var want time.Duration
		if tokens.Cmp(one) >= 0 {
			tokens.Sub(tokens, one)
		} else {
			w := new(big.Rat).Sub(one, tokens)
			w.Quo(w, rate)
			n := new(big.Int).Add(w.Num(), w.Denom())
			n.Sub(n, big.NewInt(1)).Div(n, w.Denom()) // rounded up
			want = time.Duration(n.Int64())
		}
		if got := admit(t, d, r); got != want {
			t.Fatalf("seed %d, %+v, request %d: wait %v; want %v", seed, o, i, got, want)
		}
		pause := time.Duration(rng.Int64N(2 + 2*int64(o.Per)/int64(o.Rate)))
		if want > 0 && rng.IntN(3) == 0 {
			pause = want // exactly to the nanosecond
		}
		if rng.IntN(100) == 0 {
			pause = 400 * 24 * time.Hour
		}
		time.Sleep(pause)
		tokens.Add(tokens, new(big.Rat).Mul(rate, big.NewRat(int64(pause), 1)))
		if tokens.Cmp(burst) > 0 {
			tokens.Set(burst)
		}
	}
}

func TestH13_BurstIsExactUnderConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newClientLimiter(t, weirhttp.ClientLimiterOptions{Rate: 1, Per: time.Hour, Burst: 100})
		var let atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					if d.Admit(from("192.0.2.1:1"), http.Header{}) == nil {
						let.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if n := let.Load(); n != 100 {
			t.Errorf("%d requests were admitted; want 100", n)
		}
	})
}

func TestH13_RateLimitFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ok = time.Duration(0)
		for _, test := range []struct {
			o      weirhttp.ClientLimiterOptions
			policy string
			after  []time.Duration // between requests
			want   []string
		}{
			{weirhttp.ClientLimiterOptions{Rate: 100, Per: time.Minute, Burst: 3}, `"default";q=100;w=60`,
				[]time.Duration{ok, ok, ok, ok, 100 * time.Millisecond, 500 * time.Millisecond},
				[]string{`"default";r=2;t=2`, `"default";r=1;t=1`, `"default";r=0;t=1`, `"default";r=0;t=1`, `"default";r=0;t=1`, `"default";r=0;t=1`}},
			{weirhttp.ClientLimiterOptions{Rate: 3, Per: 30 * time.Second}, `"default";q=3;w=30`,
				[]time.Duration{ok, ok, ok, 2 * time.Second, 500 * time.Millisecond, 7500 * time.Millisecond, time.Hour},
				[]string{`"default";r=2;t=20`, `"default";r=1;t=10`, `"default";r=0;t=10`, `"default";r=0;t=8`, `"default";r=0;t=8`, `"default";r=0;t=10`, `"default";r=2;t=20`}},
			{weirhttp.ClientLimiterOptions{Rate: 50, Per: 100 * time.Millisecond, Name: "fast"}, `"fast";q=500;w=1`,
				[]time.Duration{ok}, []string{`"fast";r=49;t=1`}},
			{weirhttp.ClientLimiterOptions{Rate: 1, Per: 1500 * time.Millisecond}, `"default";q=1;w=2`,
				[]time.Duration{ok}, []string{`"default";r=0;t=2`}},
			{weirhttp.ClientLimiterOptions{Rate: 1_000_000_000, Per: 1, Burst: 1}, `"default";q=999999999999999;w=1`,
				[]time.Duration{ok}, []string{`"default";r=0;t=1`}},
			{weirhttp.ClientLimiterOptions{Rate: 1, Burst: 2, Name: `a "quoted" \ name, x;r=9`}, `"a \"quoted\" \\ name, x;r=9";q=1;w=1`,
				[]time.Duration{ok}, []string{`"a \"quoted\" \\ name, x;r=9";r=1;t=1`}},
		} {
			d := newClientLimiter(t, test.o)
			for i, pause := range test.after {
				time.Sleep(pause)
				h := http.Header{}
				err := d.Admit(from("192.0.2.1:1"), h)
				if got := h.Get("RateLimit-Policy"); got != test.policy {
					t.Errorf("RateLimit-Policy of %+v = %s; want %s", test.o, got, test.policy)
				}
				if got := h.Get("RateLimit"); got != test.want[i] {
					t.Errorf("RateLimit of %+v, request %d = %s (%v); want %s", test.o, i, got, err, test.want[i])
				}
			}
		}
	})
}

func TestH13_RateLimitFieldsJoinThoseOfTheOrigin(t *testing.T) {
	d := newClientLimiter(t, weirhttp.ClientLimiterOptions{Rate: 1})
	h := http.Header{"Ratelimit-Policy": {`"origin";q=5;w=60`}, "Ratelimit": {`"origin";r=5`}}
	if err := d.Admit(from("192.0.2.1:1"), h); err != nil {
		t.Fatal(err)
	}
	if got, want := h.Values("RateLimit-Policy"), []string{`"origin";q=5;w=60`, `"default";q=1;w=1`}; !slices.Equal(got, want) {
		t.Errorf("RateLimit-Policy = %q; want %q", got, want)
	}
	if got, want := h.Values("RateLimit"), []string{`"origin";r=5`, `"default";r=0;t=1`}; !slices.Equal(got, want) {
		t.Errorf("RateLimit = %q; want %q", got, want)
	}
}

func TestH13_EmptyKeyIsLetIn(t *testing.T) {
	d := newClientLimiter(t, weirhttp.ClientLimiterOptions{Rate: 1, Per: time.Hour, Key: func(*http.Request) string { return "" }})
	h := http.Header{}
	for range 3 {
		if err := d.Admit(from("192.0.2.1:1"), h); err != nil || len(h) > 0 {
			t.Errorf("Admit without a key = %v with fields %v; want nil and no fields", err, h)
		}
	}
}

func TestH13_ByAddress(t *testing.T) {
	key := weirhttp.ByAddress(nil)
	for _, test := range []struct{ addr, want string }{
		{"192.0.2.1:80", "192.0.2.1"},
		{"192.0.2.2:80", "192.0.2.2"},
		{"[::ffff:192.0.2.1]:80", "192.0.2.1"},
		{"[::ffff:192.0.2.1%eth0]:80", "192.0.2.1"},
		{"[2001:db8:1:2:3:4:5:6]:80", "2001:db8:1:2::/64"},
		{"[2001:db8:1:2:ffff::]:80", "2001:db8:1:2::/64"},
		{"[2001:db8:1:3::]:80", "2001:db8:1:3::/64"},
		{"[fe80::1%eth0]:80", "fe80::/64"},
		{"[fe80::1%eth1]:80", "fe80::/64"},
		{"[::1]:80", "::/64"},
		{"192.0.2.1", "192.0.2.1"},
		{"2001:db8::1", "2001:db8::/64"},
		{"@", ""},
		{"", ""},
		{"pipe", ""},
		{"192.0.2.1:http", ""},
		{"192.0.2.256:80", ""},
	} {
		if got := key(from(test.addr)); got != test.want {
			t.Errorf("key of %q = %q; want %q", test.addr, got, test.want)
		}
	}
	told := weirhttp.ByAddress(func(r *http.Request) netip.Addr {
		a, _ := netip.ParseAddr(r.Header.Get("X-Forwarded-For"))
		return a
	})
	r := from("192.0.2.1:80")
	if got := told(r); got != "" {
		t.Errorf("key of a client without an address = %q; want none", got)
	}
	r.Header.Set("X-Forwarded-For", "198.51.100.7")
	if got := told(r); got != "198.51.100.7" {
		t.Errorf("key of the client in X-Forwarded-For = %q; want 198.51.100.7", got)
	}
}

func TestH13_ByHeader(t *testing.T) {
	with := func(values ...string) *http.Request {
		r := from("192.0.2.1:80")
		r.Header["X-User"] = values
		return r
	}
	key := weirhttp.ByHeader("x-user", nil)
	if got := key(with()); got != "" {
		t.Errorf("key without the header = %q; want none", got)
	}
	ada, bob := key(with("ada")), key(with("bob"))
	if ada == "" || ada == bob {
		t.Errorf("keys of ada and bob = %q, %q; want them to differ", ada, bob)
	}
	key = weirhttp.ByHeader("X-User", weirhttp.ByAddress(nil))
	address := key(with())
	if address != "192.0.2.1" {
		t.Errorf("key without the header = %q; want the address", address)
	}
	// With another line before that of a proxy, a client could get a new rate for
	// each request, or use up that of another client.
	for _, values := range [][]string{{"ada", "bob"}, {"", "bob"}, {"ada", ""}, {"ada", "ada"}} {
		if got := key(with(values...)); got != address {
			t.Errorf("key with the lines %q = %q; want the address", values, got)
		}
	}
	if key(with(address)) == address {
		t.Error("a header field that contains an address has the key of that address")
	}
	if weirhttp.ByHeader("X-Org", nil)(&http.Request{Header: http.Header{"X-Org": {"ada"}}}) == ada {
		t.Error("two header fields with the same value have the same key")
	}
}

func TestClientLimiterOptionsFaults(t *testing.T) {
	const year = 366 * 24 * time.Hour
	for _, test := range []struct {
		o    weirhttp.ClientLimiterOptions
		want []string
	}{
		{weirhttp.ClientLimiterOptions{Rate: 1}, nil},
		{weirhttp.ClientLimiterOptions{Rate: 1_000_000_000, Per: year, Burst: 100, Keys: 1 << 30, Name: " ~"}, nil},
		{weirhttp.ClientLimiterOptions{Rate: 1, Per: year, Burst: 145}, nil},
		{weirhttp.ClientLimiterOptions{Rate: 1, Per: year, Burst: 146}, []string{"ClientLimiterOptions.Burst"}},
		{weirhttp.ClientLimiterOptions{}, []string{"ClientLimiterOptions.Rate"}},
		{weirhttp.ClientLimiterOptions{Rate: 1_000_000_001, Per: year + 1, Keys: 1<<30 + 1}, []string{"ClientLimiterOptions.Rate", "ClientLimiterOptions.Per", "ClientLimiterOptions.Keys"}},
		{weirhttp.ClientLimiterOptions{Rate: -1, Per: -1, Burst: -1, Keys: -1, Name: "a\nb"},
			[]string{"ClientLimiterOptions.Rate", "ClientLimiterOptions.Per", "ClientLimiterOptions.Burst", "ClientLimiterOptions.Keys", "ClientLimiterOptions.Name"}},
		{weirhttp.ClientLimiterOptions{Rate: 1, Name: "ü"}, []string{"ClientLimiterOptions.Name"}},
		{weirhttp.ClientLimiterOptions{Rate: 1, Name: "\xff"}, []string{"ClientLimiterOptions.Name"}},
		{weirhttp.ClientLimiterOptions{Rate: 1, Name: "\x7f"}, []string{"ClientLimiterOptions.Name"}},
	} {
		d, err := weirhttp.NewClientLimiter(test.o)
		var got []string
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				var fault *weirhttp.OptionError
				if errors.As(e, &fault) {
					got = append(got, fault.Field)
				}
			}
		}
		if !slices.Equal(got, test.want) || (d == nil) != (len(test.want) > 0) {
			t.Errorf("NewClientLimiter(%+v) = %v; want faults in %v", test.o, err, test.want)
		}
	}
}

// unquote reads a string of RFC 9651 section 4.2.5 at the start of s.
func unquote(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", false
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return value, s[i+1:], true
		case c == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", "", false
			}
			value += s[i : i+1]
		case c < ' ' || c > '~':
			return "", "", false
		default:
			value += s[i : i+1]
		}
	}
	return "", "", false
}

func FuzzClientLimiterName(f *testing.F) {
	for _, s := range []string{"default", `"`, `\`, `\"`, "a;r=1", "a,b", "a\r\nSet-Cookie: x", "\x00", "ü", " "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		d, err := weirhttp.NewClientLimiter(weirhttp.ClientLimiterOptions{Rate: 5, Name: name})
		if err != nil {
			return
		}
		h := http.Header{}
		if err := d.Admit(from("192.0.2.1:1"), h); err != nil {
			t.Fatal(err)
		}
		if name == "" {
			name = "default"
		}
		for field, want := range map[string]string{"RateLimit": ";r=4;t=1", "RateLimit-Policy": ";q=5;w=1"} {
			if got, rest, ok := unquote(h.Get(field)); !ok || got != name || rest != want {
				t.Errorf("%s = %q; want %q as a string and %s", field, h.Get(field), name, want)
			}
		}
	})
}

func FuzzByAddress(f *testing.F) {
	for _, s := range []string{"192.0.2.1:80", "[2001:db8::1%a b]:80", "[::ffff:192.0.2.1]:1", "fe80::1%", "@", "[::1]", ":80", "1.2.3.4:99999"} {
		f.Add(s)
	}
	key := weirhttp.ByAddress(nil)
	f.Fuzz(func(t *testing.T, addr string) {
		k := key(from(addr))
		if k == "" {
			return
		}
		// A key is only an address or a /64, whatever the zone contains.
		if a, err := netip.ParseAddr(k); err == nil && a.Is4() {
			return
		}
		if p, err := netip.ParsePrefix(k); err != nil || p.Bits() != 64 || p.Masked() != p || p.Addr().Is4In6() {
			t.Errorf("key of %q = %q; want an IPv4 address or a /64", addr, k)
		}
	})
}

func TestH13_KeysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n int
		who := ""
		d := newClientLimiter(t, weirhttp.ClientLimiterOptions{Rate: 1, Per: time.Hour, Keys: 10, Key: func(*http.Request) string { return who }})
		ask := func(key string, want time.Duration) {
			t.Helper()
			who = key
			admitted(t, d, from(key), want)
		}
		ask("regular", 0)
		for range 1000 {
			for range 9 {
				n++
				ask(strconv.Itoa(n), 0)
			}
			ask("regular", time.Hour) // is seen often enough to be remembered
		}
		for range 10 {
			n++
			ask(strconv.Itoa(n), 0)
		}
		ask("regular", 0) // was the least recently seen
	})
}

// Tokens that a client has spent stay spent after an update. With a larger burst the
// client has the rest, with a smaller one nothing, and tokens come back at the new
// rate.
func TestH13_UpdateKeepsWhatIsSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := weirhttp.ClientLimiterOptions{Name: "api", Rate: 1, Per: time.Hour, Burst: 3, Keys: 2}
		l := newClientLimiter(t, o)
		a, b := from("192.0.2.1:1"), from("192.0.2.2:1")
		for range 3 {
			admitted(t, l, a, 0)
		}
		o.Burst = 4
		if err := l.Update(o); err != nil {
			t.Fatal(err)
		}
		admitted(t, l, a, 0)
		admitted(t, l, a, time.Hour)
		o.Rate, o.Per, o.Burst = 1, time.Second, 2
		if err := l.Update(o); err != nil {
			t.Fatal(err)
		}
		admitted(t, l, a, time.Second)
		admitted(t, l, b, 0)
		h := http.Header{}
		time.Sleep(time.Second)
		if err := l.Admit(a, h); err != nil || h.Get("RateLimit-Policy") != `"api";q=1;w=1` || h.Get("RateLimit") != `"api";r=0;t=1` {
			t.Errorf("Admit = %v, with %v; want the policy of the new rate", err, h)
		}
		time.Sleep(time.Hour)
		admitted(t, l, a, 0)
		admitted(t, l, a, 0)
		admitted(t, l, a, time.Second)
	})
}

func TestClientLimiterUpdateRefusesWhatItCannotChange(t *testing.T) {
	m := fleet.NewMemory(fleet.MemoryOptions{})
	defer m.Close(t.Context())
	alone := weirhttp.ClientLimiterOptions{Name: "api", Rate: 1}
	joint := alone
	joint.Burst = 100
	joint.Fleet = weirhttp.ClientLimiterFleet{Meter: m, OnFailure: quota.FailClosed}
	for _, row := range []struct {
		field     string
		made, now weirhttp.ClientLimiterOptions
		change    func(*weirhttp.ClientLimiterOptions)
	}{
		{"", alone, alone, func(o *weirhttp.ClientLimiterOptions) { o.Keys = 7 }},
		{"", joint, joint, func(o *weirhttp.ClientLimiterOptions) { o.Fleet.OnFailure = quota.FailOpen }},
		{"Name", alone, alone, func(o *weirhttp.ClientLimiterOptions) { o.Name = "other" }},
		{"Rate", alone, alone, func(o *weirhttp.ClientLimiterOptions) { o.Rate = 0 }},
		{"Fleet.Meter", alone, joint, nil},
		{"Fleet.Meter", joint, alone, nil},
		{"Fleet.OnFailure", joint, joint, func(o *weirhttp.ClientLimiterOptions) { o.Fleet.OnFailure = 0 }},
		{"Fleet.Namespace", joint, joint, func(o *weirhttp.ClientLimiterOptions) { o.Fleet.Namespace = "other" }},
	} {
		l := newClientLimiter(t, row.made)
		if row.change != nil {
			row.change(&row.now)
		}
		err := l.Update(row.now)
		var e *weirhttp.OptionError
		if row.field == "" && err != nil || row.field != "" && (!errors.As(err, &e) || e.Field != "ClientLimiterOptions."+row.field) {
			t.Errorf("%s: Update = %v; want an OptionError for that field", row.field, err)
		}
	}
}
