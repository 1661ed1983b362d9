package weirhttp_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// A changing origin responds to the first call with a response that may be served
// stale, to the second with the status and the fields of then, and to all others with
// 503.
type changing struct {
	calls  atomic.Int64
	status int
	then   []string // name, value, ...
}

func (o *changing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Etag", `"1"`)
	switch o.calls.Add(1) {
	case 1:
		h.Set("Cache-Control", "public, max-age=10, stale-while-revalidate=600, stale-if-error=600")
		_, _ = io.WriteString(w, "old")
	case 2:
		for i := 0; i+1 < len(o.then); i += 2 {
			h.Add(o.then[i], o.then[i+1])
		}
		w.WriteHeader(o.status)
		if o.status == http.StatusOK {
			_, _ = io.WriteString(w, "new")
		}
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// ways are how a call comes to replace a response that is stale.
var ways = map[string]struct {
	options weirhttp.Options
	fields  []string
}{
	"refresh":    {},
	"foreground": {fields: []string{"Cache-Control", "max-age=5"}},
	"alone":      {options: weirhttp.Options{NoCoalescing: true}, fields: []string{"Cache-Control", "max-age=5"}},
}

// Once the origin has answered with something else that may not be stored, what was
// stored before is not served again (RFC 9111 sections 4.3.3 and 4.3.4): neither while
// it is revalidated, nor because of an error.
func TestH11_AWithdrawnResponseIsNotServedAgain(t *testing.T) {
	rows := []struct {
		status int
		then   []string
	}{
		{200, []string{"Cache-Control", "no-store"}},
		{200, []string{"Cache-Control", "private, max-age=60"}},
		{200, nil}, // nothing says that it may be stored
		{204, []string{"Cache-Control", "no-store"}},
		{301, []string{"Cache-Control", "no-store", "Location", "/b"}},
		{302, []string{"Location", "/b"}},
		{404, nil},
		{410, []string{"Cache-Control", "no-store"}},
		{451, nil},
		{304, []string{"Cache-Control", "no-store"}},
		{304, []string{"Cache-Control", "private, max-age=60"}},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			for _, row := range rows {
				synctest.Test(t, func(t *testing.T) {
					s := open(t, h1, way.options, (&changing{status: row.status, then: row.then}).ServeHTTP)
					s.get("/a").want(t, 200, "old")
					time.Sleep(20 * time.Second)
					s.get("/a", way.fields...)
					synctest.Wait()
					s.wantCalls(2)
					if r := s.get("/a"); r.status != 503 {
						t.Errorf("after %d %q, a client got %d %q; want the origin's 503", row.status, row.then, r.status, r.body)
					}
					s.wantCalls(3)
				})
			}
		})
	}
}

// A client cannot take the stored response from others with a request whose fields make
// the origin answer in another way.
func TestH11_AClientWithdrawsNothing(t *testing.T) {
	rows := []struct {
		name   string
		fields []string
		status int
		then   []string
	}{
		{"credentials", []string{"Authorization", "Basic eA=="}, 404, nil},
		{"private for a cookie", []string{"Cookie", "user=1"}, 200, []string{"Cache-Control", "private"}},
		{"a cookie is set", nil, 200, []string{"Cache-Control", "max-age=60", "Set-Cookie", "user=1"}},
		{"no-store", []string{"Cache-Control", "no-store"}, 404, nil},
		{"range", []string{"Range", "bytes=0-0"}, 416, nil},
		{"bad request", nil, 400, nil},
		{"unauthorized", nil, 401, nil},
		{"forbidden", nil, 403, nil},
		{"not acceptable", nil, 406, nil},
		{"too many fields", nil, 431, nil},
		{"rate limit", nil, 429, nil},
		{"error", nil, 500, nil},
		{"not implemented", nil, 501, nil},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			for _, row := range rows {
				synctest.Test(t, func(t *testing.T) {
					s := open(t, h1, way.options, (&changing{status: row.status, then: row.then}).ServeHTTP)
					s.get("/a").want(t, 200, "old")
					time.Sleep(20 * time.Second)
					s.get("/a", append(row.fields, way.fields...)...)
					synctest.Wait()
					s.wantCalls(2)
					if r := s.get("/a"); r.status != 200 || r.body != "old" {
						t.Errorf("%s: others get %d %q; want the stored response", row.name, r.status, r.body)
					}
				})
			}
		})
	}
	for _, row := range []struct {
		name, method, control string
		after                 time.Duration
	}{
		{"a HEAD", "HEAD", "max-age=5", 20 * time.Second},
		{"a reload of a fresh one", "GET", "no-cache", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, h1, weirhttp.Options{}, (&changing{status: 404}).ServeHTTP)
			s.get("/a").want(t, 200, "old")
			time.Sleep(row.after)
			s.do(s.request(t.Context(), row.method, "/a", "Cache-Control", row.control)).want(t, 404, "")
			if r := s.get("/a"); r.status != 200 || r.body != "old" {
				t.Errorf("%s: others get %d %q; want the stored response", row.name, r.status, r.body)
			}
		})
	}
}

// Other variants of the URL stay.
func TestH11_OnlyTheVariantIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := ""
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
			lang := r.Header.Get("X-Lang")
			if lang == gone {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			w.Header().Set("Cache-Control", "max-age=10, stale-while-revalidate=600")
			w.Header().Set("Vary", "X-Lang")
			_, _ = io.WriteString(w, lang)
		})
		s.get("/a", "X-Lang", "de")
		s.get("/a", "X-Lang", "en")
		gone = "de"
		time.Sleep(20 * time.Second)
		s.get("/a", "X-Lang", "de").want(t, 200, "de") // stale, with a refresh behind it
		synctest.Wait()
		s.get("/a", "X-Lang", "de").want(t, 404, "")
		s.get("/a", "X-Lang", "en").want(t, 200, "en")
	})
}

// The folder does not bring it back, now or after a restart.
func TestH28_AWithdrawnResponseIsNotInTheFolder(t *testing.T) {
	o := new(changing)
	restarted(t, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) { o.ServeHTTP(w, r) },
		func(t *testing.T, s *site, _ *weirhttp.Cache) {
			o.calls.Store(0)
			o.status = 410
			s.get("/a").want(t, 200, "old")
			time.Sleep(20 * time.Second)
			s.get("/a").want(t, 200, "old")
			synctest.Wait()
			s.get("/a").want(t, 503, "")
		},
		func(t *testing.T, s *site, _ *weirhttp.Cache) { s.get("/a").want(t, 503, "") })
}

// In a fleet, the other instances lose it as well, each variant for itself.
func TestFleetAWithdrawnResponseIsNotServedAgain(t *testing.T) {
	for _, vary := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := &changing{status: 410}
			e := openEnsemble(t, 2, nil, func(w http.ResponseWriter, r *http.Request) {
				if vary {
					w.Header().Set("Vary", "X-Lang")
				}
				o.ServeHTTP(w, r)
			})
			a, b := e.sites[0], e.sites[1]
			a.get("/a", "X-Lang", "de").want(t, 200, "old")
			b.get("/a", "X-Lang", "de").want(t, 200, "old")
			e.wantCalls(1)
			time.Sleep(20 * time.Second)
			a.get("/a", "X-Lang", "de").want(t, 200, "old") // stale, with a refresh behind it
			synctest.Wait()
			e.wantCalls(2)
			for range 2 {
				a.get("/a", "X-Lang", "de").want(t, 503, "")
				b.get("/a", "X-Lang", "de").want(t, 503, "")
				time.Sleep(100 * time.Second) // by then they ask the Tier again
			}
		})
	}
}

// H29: a 304 is about the stored response itself. What it says takes effect for all whom
// that serves, with any credentials.
func TestH29_A304WithdrawsWhatOthersHave(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			for _, then := range [][]string{{"Cache-Control", "no-store"}, {"Cache-Control", "private"}, {"Vary", "*"}} {
				synctest.Test(t, func(t *testing.T) {
					s := open(t, h1, way.options, (&changing{status: 304, then: then}).ServeHTTP)
					s.get("/a").want(t, 200, "old")
					time.Sleep(20 * time.Second)
					s.get("/a", append([]string{"Authorization", "Basic eA=="}, way.fields...)...)
					synctest.Wait()
					if r := s.get("/a"); r.status != 503 {
						t.Errorf("after a 304 with %q to a client with credentials, another got %d %q; want the origin's 503", then, r.status, r.body)
					}
				})
			}
		})
	}
}
