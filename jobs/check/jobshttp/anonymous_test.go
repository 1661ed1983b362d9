package jobshttp_test

import (
	"net/http"
	"testing"

	"github.com/weir-go/weir/jobs/jobshttp"
)

// H23: an anonymous client can neither read nor cancel another anonymous client's job
// without knowing its address.
func TestH23_AnonymousClientsHaveJobsOfTheirOwn(t *testing.T) {
	for name, fields := range map[string][]string{"nothing": nil, "a cookie that does not name the principal": {"Cookie: theme=dark"}} {
		t.Run(name, func(t *testing.T) {
			x := newSite(t, setup{idle: true})
			ask := append([]string{"Prefer: respond-async"}, fields...)
			a, b := x.do("GET", "/slow", "", ask...), x.do("GET", "/slow", "", ask...)
			if a.status != 202 || b.status != 202 || a.header.Get("Location") == b.header.Get("Location") {
				t.Fatalf("two requests = %d at %q, %d at %q; want two jobs", a.status, a.header.Get("Location"), b.status, b.header.Get("Location"))
			}
			if got := x.do("DELETE", a.header.Get("Location"), ""); got.status != http.StatusNoContent {
				t.Errorf("DELETE = %d %s", got.status, got.body)
			}
			if got := x.do("GET", b.header.Get("Location"), ""); got.status != 200 || got.job.State != "queued" {
				t.Errorf("the other's job = %d %s; want queued", got.status, got.body)
			}
			// Logging in between does not take the job away.
			if got := x.do("GET", b.header.Get("Location"), "", "Authorization: Bearer x", "Cookie: session=1"); got.status != 200 {
				t.Errorf("the same client, now with credentials = %d; want 200", got.status)
			}
		})
	}
}

// H23: clients that send their credential without a value are anonymous, and not all the
// same client: they share no job.
func TestH23_EmptyCredentialsAreNone(t *testing.T) {
	for _, field := range []string{"Authorization: ", "Cookie: session=", `Cookie: session=""`, `Cookie: session=" "`, "Cookie: session"} {
		t.Run(field, func(t *testing.T) {
			x := newSite(t, setup{idle: true, route: jobshttp.RouteOptions{Principal: []string{"Authorization", "cookie:session"}}})
			a, b := x.do("GET", "/slow", "", "Prefer: respond-async", field), x.do("GET", "/slow", "", "Prefer: respond-async", field)
			if a.status != 202 || b.status != 202 || a.header.Get("Location") == b.header.Get("Location") {
				t.Errorf("two requests = %d at %q, %d at %q; want two jobs", a.status, a.header.Get("Location"), b.status, b.header.Get("Location"))
			}
		})
	}
}

// H23: with ShareAnonymous, identical safe requests share one job, which none of its
// clients can cancel. Requests with credentials do not share it.
func TestH23_SharedJobsOfAnonymousClients(t *testing.T) {
	x := newSite(t, setup{idle: true, route: jobshttp.RouteOptions{ShareAnonymous: true}})
	a, b := x.do("GET", "/slow", "", "Prefer: respond-async"), x.do("GET", "/slow", "", "Prefer: respond-async")
	if a.header.Get("Location") == "" || a.header.Get("Location") != b.header.Get("Location") {
		t.Fatalf("two requests are at %q and %q; want one job", a.header.Get("Location"), b.header.Get("Location"))
	}
	if got := x.do("DELETE", a.header.Get("Location"), ""); got.status != http.StatusForbidden {
		t.Errorf("DELETE = %d; want 403", got.status)
	}
	seen := map[string]bool{a.header.Get("Location"): true}
	for range 2 {
		got := x.do("GET", "/slow", "", "Prefer: respond-async", "Cookie: session=1")
		if got.status != 202 || seen[got.header.Get("Location")] {
			t.Errorf("with a cookie: %d at %q; want a separate job", got.status, got.header.Get("Location"))
		}
		seen[got.header.Get("Location")] = true
	}
}

// H23: a cookie can name the principal, and then no other cookie matters.
func TestH23_ACookieNamesThePrincipal(t *testing.T) {
	x := newSite(t, setup{idle: true, route: jobshttp.RouteOptions{Principal: []string{"Authorization", "cookie:session"}}})
	first := x.do("GET", "/slow", "", "Prefer: respond-async", "Cookie: session=1")
	for _, c := range []struct {
		cookie string
		same   bool
	}{
		{"session=1", true}, {"theme=dark; session=1", true}, {"session=1; consent=yes", true},
		{"session=2", false}, {"Session=1", false}, {"theme=dark", false}, {"session=1; session=2", false},
	} {
		got := x.do("GET", first.header.Get("Location"), "", "Cookie: "+c.cookie)
		if (got.status == 200) != c.same || !c.same && got.status != 404 {
			t.Errorf("with %q the status is %d; want the same client: %t", c.cookie, got.status, c.same)
		}
	}
	if again := x.do("GET", "/slow", "", "Prefer: respond-async", "Cookie: session=1"); again.header.Get("Location") != first.header.Get("Location") {
		t.Errorf("the same client's request is at %q; want %q", again.header.Get("Location"), first.header.Get("Location"))
	}
}

// H23: a request that is repeated with its Idempotency-Key gets the same job, even if
// an unrelated cookie was added in between.
func TestH23_AnotherCookieDoesNotChangeARequest(t *testing.T) {
	x := newSite(t, setup{idle: true, route: jobshttp.RouteOptions{Principal: []string{"cookie:session"}}})
	var at []string
	for _, cookie := range []string{"session=1", "session=1; consent=yes"} {
		got := x.do("POST", "/slow", "in", "Prefer: respond-async", "Idempotency-Key: k", "Cookie: "+cookie)
		if got.status != 202 {
			t.Fatalf("POST with %s = %d %s", cookie, got.status, got.body)
		}
		at = append(at, got.header.Get("Location"))
	}
	if at[0] != at[1] {
		t.Errorf("the jobs are at %q; want one", at)
	}
}

// Behind one shared password, the session decides whose result it is (H3). With an
// Idempotency-Key the client is known by its password, and a new session is no other
// request.
func TestH3H32_ClientsWithOnePasswordAndOtherCookiesHaveOtherJobs(t *testing.T) {
	x := newSite(t, setup{idle: true})
	const shared = "Authorization: Basic c2hvcDpzaG9w"
	alice := x.async("GET", "/slow/me", "", shared, "Cookie: session=alice").job.ID
	if bob := x.async("GET", "/slow/me", "", shared, "Cookie: session=bob").job.ID; bob == alice {
		t.Error("the other session has the same job")
	}
	if again := x.async("GET", "/slow/me", "", shared, "Cookie: session=alice").job.ID; again != alice {
		t.Error("the same session has another job")
	}
	paid := x.async("POST", "/slow/pay", "x", shared, "Cookie: session=1", "Idempotency-Key: k").job.ID
	if again := x.async("POST", "/slow/pay", "x", shared, "Cookie: session=2", "Idempotency-Key: k").job.ID; again != paid {
		t.Error("a retry with a new session has another job")
	}
}
