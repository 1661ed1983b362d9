package weirhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/weirhttp"
)

// An api is the origin of a Transport: it responds with the number of the call and the
// user, and validates.
type api struct {
	calls, validated atomic.Int64
	fields           []string
	wait             time.Duration
}

func (a *api) trip(r *http.Request) (*http.Response, error) {
	n := a.calls.Add(1)
	time.Sleep(a.wait)
	tag := ""
	for i := 0; i+1 < len(a.fields); i += 2 {
		if a.fields[i] == "Etag" {
			tag = a.fields[i+1]
		}
	}
	if tag != "" && r.Header.Get("If-None-Match") == tag {
		a.validated.Add(1)
		return plain(r, http.StatusNotModified, "", a.fields...), nil
	}
	return plain(r, http.StatusOK, strconv.FormatInt(n, 10)+" for "+userOf(r.Header), a.fields...), nil
}

func userOf(h http.Header) string {
	return h.Get("Authorization") + h.Get("Cookie") + h.Get("X-Api-Key")
}

// private opens a private Transport, or a shared one.
func private(t *testing.T, shared bool, o weirhttp.Options, base roundTrip) *http.Client {
	t.Helper()
	open := weirhttp.NewPrivateTransport
	if shared {
		open = weirhttp.NewTransport
	}
	tr, err := open(base, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close(context.Background()) })
	return &http.Client{Transport: tr}
}

// send sends a request with the fields (name, value, ...), and returns the body.
func send(t *testing.T, c *http.Client, method, url string, fields ...string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Error(err)
		return ""
	}
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

const item = "http://api.example/item"

func TestH30_ResponsesThatAPrivateTransportStores(t *testing.T) {
	rows := []struct {
		name            string
		fields          []string
		private, shared bool // whether the second of two equal requests is a hit
		credentials     bool // whether it is one in a shared Transport, if they have credentials
	}{
		{"max-age", []string{"Cache-Control", "max-age=60"}, true, true, false},
		{"public", []string{"Cache-Control", "public, max-age=60"}, true, true, true},
		{"private", []string{"Cache-Control", "private, max-age=60"}, true, false, false},
		{"private fields", []string{"Cache-Control", `private="x", max-age=60`}, true, false, false},
		{"s-maxage is for others", []string{"Cache-Control", "s-maxage=60"}, false, true, true},
		{"max-age next to s-maxage", []string{"Cache-Control", "s-maxage=0, max-age=60"}, true, false, false},
		{"CDN-Cache-Control is for others", []string{"CDN-Cache-Control", "max-age=60"}, false, true, false},
		{"against CDN-Cache-Control", []string{"CDN-Cache-Control", "no-store", "Cache-Control", "max-age=60"}, true, false, false},
		{"no-store", []string{"Cache-Control", "no-store, max-age=60"}, false, false, false},
		{"no-store and private", []string{"Cache-Control", "private, no-store"}, false, false, false},
		{"Set-Cookie", []string{"Cache-Control", "max-age=60", "Set-Cookie", "a=b"}, false, false, false},
		{"Vary: *", []string{"Cache-Control", "max-age=60", "Vary", "*"}, false, false, false},
		{"no freshness and no validator", nil, false, false, false},
	}
	for _, row := range rows {
		for _, shared := range []bool{false, true} {
			for _, request := range [][]string{nil, {"Authorization", "A"}, {"Cookie", "c=1"}, {"Authorization", "A", "Cookie", "c=1"}} {
				synctest.Test(t, func(t *testing.T) {
					a := &api{fields: row.fields}
					c := private(t, shared, weirhttp.Options{}, a.trip)
					first := send(t, c, "GET", item, request...)
					synctest.Wait()
					want := row.private
					if shared {
						want = row.shared && (len(request) == 0 || row.credentials)
					}
					if got := send(t, c, "GET", item, request...) == first; got != want {
						t.Errorf("%s, shared %v, %v: a hit %v; want %v", row.name, shared, request, got, want)
					}
				})
			}
		}
	}
}

func TestH30_ValidatorsWithoutFreshness(t *testing.T) {
	for _, validator := range []string{`"1"`, `W/"1"`} {
		for _, shared := range []bool{false, true} {
			for _, request := range [][]string{nil, {"Authorization", "A"}, {"Cookie", "a=b"}} {
				synctest.Test(t, func(t *testing.T) {
					a := &api{fields: []string{"Etag", validator}}
					c := private(t, shared, weirhttp.Options{}, a.trip)
					first := send(t, c, "GET", item, request...)
					for range 2 {
						synctest.Wait()
						if got := send(t, c, "GET", item, request...); !shared && got != first {
							t.Errorf("%v: got %s; want %s, validated", request, got, first)
						}
					}
					want := int64(2)
					if shared {
						want = 0
					}
					if got := a.validated.Load(); got != want || a.calls.Load() != 3 {
						t.Errorf("shared %v, %v: %d of %d calls were validations; want %d of 3", shared, request, got, a.calls.Load(), want)
					}
				})
			}
		}
	}
}

// Should several users be behind one private Transport by mistake, they share nothing:
// not in the store, not on a flight, not by a validation, and not in parts.
func TestH30_UsersShareNothing(t *testing.T) {
	users := [][]string{
		nil,
		{"Authorization", "Bearer ada"}, {"Authorization", "Bearer Ada"}, {"Authorization", "Bearer bob"},
		{"Cookie", "s=1"}, {"Cookie", "s=2"}, {"X-Api-Key", "1"}, {"X-Api-Key", "2"},
		{"Authorization", "Bearer ada", "Cookie", "s=1"},
	}
	for _, fields := range [][]string{
		{"Cache-Control", "private, max-age=60"},
		{"Cache-Control", "max-age=60"},
		{"Cache-Control", "public, max-age=60"},
		{"Cache-Control", "max-age=60, stale-while-revalidate=60"},
		{"Cache-Control", "no-cache", "Etag", `"1"`},
		{"Etag", `"1"`},
		nil,
	} {
		for _, wait := range []time.Duration{0, slow} {
			synctest.Test(t, func(t *testing.T) {
				a := &api{fields: fields, wait: wait}
				c := private(t, false, weirhttp.Options{}, a.trip)
				for range 3 {
					done := make(chan bool)
					for i := range 3 * len(users) {
						go func() {
							defer func() { done <- true }()
							user := users[i%len(users)]
							h := make(http.Header)
							for j := 0; j+1 < len(user); j += 2 {
								h.Set(user[j], user[j+1])
							}
							got := send(t, c, "GET", item, user...)
							if want := " for " + userOf(h); len(got) < len(want) || got[len(got)-len(want):] != want {
								t.Errorf("with %v, %v got %q", fields, user, got)
							}
						}()
					}
					for range 3 * len(users) {
						<-done
					}
					time.Sleep(40 * time.Second)
				}
			})
		}
	}
}

// The parts of one user are not completed for another.
func TestH30_PartsOfUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &film{size: 100, version: 1, fields: []string{"Cache-Control", "private, max-age=60"}}
		var calls atomic.Int64
		c := private(t, false, weirhttp.Options{}, func(r *http.Request) (*http.Response, error) {
			calls.Add(1)
			w := newRecorder()
			f.ServeHTTP(w, r)
			return w.response(r), nil
		})
		for _, user := range []string{"A", "B", "A", "B"} {
			if got := send(t, c, "GET", item, "Range", "bytes=10-39", "Authorization", user); got != f.bytes(1)[10:40] {
				t.Errorf("user %s got %q", user, got)
			}
			synctest.Wait()
		}
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls; want one for each user", n)
		}
		send(t, c, "GET", item, "Range", "bytes=20-59", "Authorization", "C")
		if got := f.last(); got != "bytes=20-59" {
			t.Errorf("the origin got a request for %s; want all of it for a third user", got)
		}
	})
}

// An invalidation of the URL is for all.
func TestH30_Invalidations(t *testing.T) {
	for name, invalidate := range map[string]func(t *testing.T, c *http.Client, cache *weirhttp.Cache){
		"by URL": func(t *testing.T, _ *http.Client, c *weirhttp.Cache) {
			_, _ = c.Invalidate(t.Context(), "http", "api.example", "/item")
		},
		"expired": func(t *testing.T, _ *http.Client, c *weirhttp.Cache) {
			_, _ = c.Expire(t.Context(), "http", "api.example", "/item")
		},
		"by tag": func(t *testing.T, _ *http.Client, c *weirhttp.Cache) { _ = c.InvalidateTags(t.Context(), "t") },
		"by another's PUT": func(t *testing.T, c *http.Client, _ *weirhttp.Cache) {
			send(t, c, "PUT", item, "Authorization", "C")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &api{fields: []string{"Cache-Control", "private, max-age=60", "Cache-Tag", "t"}}
				cache, _ := weirhttp.NewCache(weirhttp.MinCacheBytes)
				c := private(t, false, weirhttp.Options{Cache: cache}, a.trip)
				for range 2 {
					for _, user := range []string{"A", "B"} {
						send(t, c, "GET", item, "Authorization", user)
					}
				}
				if n := a.calls.Load(); n != 2 {
					t.Errorf("%d calls for two users; want 2", n)
				}
				invalidate(t, c, cache)
				before := a.calls.Load()
				for _, user := range []string{"A", "B"} {
					send(t, c, "GET", item, "Authorization", user)
				}
				if n := a.calls.Load() - before; n != 2 {
					t.Errorf("%d calls after the invalidation; want 2", n)
				}
			})
		})
	}
}

// A private Transport shares its Cache with nothing, and has neither fleet nor folder.
func TestH30_APrivateTransportIsAlone(t *testing.T) {
	tier := fleet.NewMemory(fleet.MemoryOptions{})
	defer tier.Close(context.Background())
	inFleet := weirhttp.FleetOptions{Config: fleet.Config{Tier: tier}}
	folder := func(c *weirhttp.Cache) error {
		return c.OpenFolder(weirhttp.FolderOptions{Folder: t.TempDir()})
	}
	closing := func(h interface{ Close(context.Context) error }, err error) error {
		if err == nil {
			_ = h.Close(t.Context())
		}
		return err
	}
	ways := map[string]func(c *weirhttp.Cache) error{
		"private": func(c *weirhttp.Cache) error {
			return closing(weirhttp.NewPrivateTransport(nil, weirhttp.Options{Cache: c}))
		},
		"shared": func(c *weirhttp.Cache) error {
			return closing(weirhttp.NewTransport(nil, weirhttp.Options{Cache: c}))
		},
		"handler": func(c *weirhttp.Cache) error {
			return closing(weirhttp.New(http.NotFoundHandler(), weirhttp.Options{Cache: c}))
		},
		"fleet":  func(c *weirhttp.Cache) error { return c.JoinFleet(inFleet) },
		"folder": folder,
	}
	for first, use := range ways {
		for second, reuse := range ways {
			if first != "private" && second != "private" {
				continue
			}
			c, _ := weirhttp.NewCache(weirhttp.MinCacheBytes)
			if err := use(c); err != nil {
				t.Fatal(first, err)
			}
			if err := reuse(c); !errors.Is(err, weirhttp.ErrPrivateCache) {
				t.Errorf("%s, then %s: %v; want ErrPrivateCache", first, second, err)
			}
			_ = c.Close(t.Context())
		}
	}
	var e *weirhttp.OptionError
	if _, err := weirhttp.NewPrivateTransport(nil, weirhttp.Options{Fleet: inFleet}); !errors.As(err, &e) || e.Field != "Options.Fleet" {
		t.Errorf("a private Transport in a fleet: %v; want an OptionError", err)
	}
}

// Each field of a Policy has its effect.
func TestH30_NoFieldOfAPolicyIsLost(t *testing.T) {
	var p weirhttp.Policy
	v := reflect.ValueOf(&p).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int64:
			f.SetInt(int64(i + 1))
		case reflect.Float64:
			f.SetFloat(0.5)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{strconv.Itoa(i)}))
		default:
			t.Fatalf("%s has a type that this test does not know", v.Type().Field(i).Name)
		}
	}
	rules := reflect.ValueOf(p.Rules())
	for i := range v.NumField() {
		name := strings.TrimSuffix(v.Type().Field(i).Name, "Headers")
		if name == "Ignore" {
			name = "IgnoreHeaders"
		}
		if got := rules.FieldByName(name); !got.IsValid() || !reflect.DeepEqual(got.Interface(), v.Field(i).Interface()) {
			t.Errorf("%s = %v; want %v", name, got, v.Field(i))
		}
	}
	if rules.FieldByName("Private").Bool() {
		t.Error("a Policy makes a cache private")
	}
}

// A recorder records a response.
type recorder struct {
	header http.Header
	status int
	body   []byte
}

func newRecorder() *recorder { return &recorder{header: make(http.Header), status: 200} }

func (w *recorder) Header() http.Header    { return w.header }
func (w *recorder) WriteHeader(status int) { w.status = status }
func (w *recorder) Write(p []byte) (int, error) {
	w.body = append(w.body, p...)
	return len(p), nil
}

func (w *recorder) response(r *http.Request) *http.Response {
	resp := plain(r, w.status, string(w.body))
	resp.Header = w.header
	return resp
}
