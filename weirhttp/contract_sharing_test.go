package weirhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// permits returns a limit.Concurrency with options o.
func permits(t *testing.T, o limit.ConcurrencyOptions) *limit.Concurrency {
	t.Helper()
	l, err := limit.NewConcurrency(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestH1_ReleasedTogetherWhateverTheReason(t *testing.T) {
	rows := map[string]http.HandlerFunc{
		"set-cookie": answering(slow, "Cache-Control", "max-age=60", "Set-Cookie", "a=b"),
		"too big":    answering(slow, "Cache-Control", "max-age=60", "Content-Length", "2000000"),
		"a stream":   answering(slow, "Cache-Control", "max-age=60", "Content-Type", "Text/Event-Stream"),
	}
	for name, origin := range rows {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, p protocol) {
				synctest.Test(t, func(t *testing.T) {
					s := open(t, p, weirhttp.Options{MaxObject: 1 << 20}, func(w http.ResponseWriter, r *http.Request) {
						origin(w, r)
						if n, _ := strconv.Atoi(w.Header().Get("Content-Length")); n > 0 {
							_, _ = w.Write(make([]byte, n-len(r.URL.Path)))
						}
					})
					for i, r := range s.together(20, s.same("/a")) {
						if r.err != nil || r.took > 2*slow {
							t.Errorf("client %d got its response after %v, %v; want at most %v", i, r.took, r.err, 2*slow)
						}
					}
					s.wantCalls(20)
				})
			})
		})
	}
}

// A row is a row of the table of H2.
type row struct {
	name   string
	status int
	fields []string
	shared bool
}

func TestH2_EveryStatusAndDirective(t *testing.T) {
	rows := []row{
		{"200 fresh", 200, []string{"Cache-Control", "max-age=60"}, true},
		{"200 expires", 200, []string{"Expires", "Fri, 31 Dec 2100 00:00:00 GMT"}, true},
		{"200 of no freshness", 200, nil, true},
		{"200 max-age=0", 200, []string{"Cache-Control", "max-age=0"}, true}, // alike
		{"404", 404, nil, true},
		{"302", 302, []string{"Location", "/b"}, true},
		{"500", 500, nil, true}, // a documented deviation
		{"503 with Retry-After", 503, []string{"Retry-After", "1"}, true},
		{"no-store", 200, []string{"Cache-Control", "no-store, max-age=60"}, false},
		{"no-store in capitals", 200, []string{"Cache-Control", "max-age=60, NO-STORE"}, false},
		{"private", 200, []string{"Cache-Control", "private"}, false},
		{"private field", 200, []string{"Cache-Control", `private="x", max-age=60`}, false},
		{"no-cache", 200, []string{"Cache-Control", "no-cache", "Etag", `"1"`}, false},
		{"no-cache field", 200, []string{"Cache-Control", `no-cache="x", max-age=60`}, false},
		{"set-cookie on 500", 500, []string{"Set-Cookie", "a=b"}, false},
		{"vary star", 200, []string{"Vary", "Accept, *", "Cache-Control", "max-age=60"}, false},
		{"cdn no-store", 200, []string{"CDN-Cache-Control", "no-store", "Cache-Control", "max-age=60"}, false},
		{"401", 401, nil, false},
		{"403", 403, nil, false},
		{"407", 407, []string{"Cache-Control", "max-age=60"}, false},
		{"429", 429, []string{"Cache-Control", "max-age=60"}, false},
		{"206", 206, []string{"Cache-Control", "max-age=60", "Content-Range", "bytes 0-1/9"}, false},
		{"304", 304, []string{"Cache-Control", "max-age=60"}, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(slow)
					for i := 0; i+1 < len(row.fields); i += 2 {
						w.Header().Add(row.fields[i], row.fields[i+1])
					}
					w.WriteHeader(row.status)
				})
				for _, r := range s.together(10, s.same("/a")) {
					r.want(t, row.status, "")
				}
				want := int64(10)
				if row.shared {
					want = 1
				}
				s.wantCalls(want)
			})
		})
	}
}

// echo responds with the value of a request's field.
func echo(name string, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(slow)
		for i := 0; i+1 < len(fields); i += 2 {
			w.Header().Add(fields[i], fields[i+1])
		}
		_, _ = io.WriteString(w, r.Header.Get(name))
	}
}

func TestH2_WithoutFreshnessOnlyAlikeRequestsShare(t *testing.T) {
	for name, calls := range map[string]int64{
		"User-Agent": 1, "Traceparent": 1, "Sec-Fetch-Mode": 1,
		"Referer": 5, "X-Forwarded-For": 5, "Accept": 5, "X-Tenant": 5, "X-Forwarded-Host": 5, "Accept-Language": 5,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, h1, weirhttp.Options{}, echo(name))
				replies := s.together(20, func(i int) *http.Request {
					return s.request(t.Context(), "GET", "/a", name, fmt.Sprint("v", i%5))
				})
				s.wantCalls(calls)
				for i, r := range replies {
					if want := fmt.Sprint("v", i%5); calls == 5 {
						r.want(t, 200, want)
					}
				}
			})
		})
	}
}

// A next handler may change the fields of its request, as an http.Handler may do that
// keeps credentials from the handlers behind it. The fields that the client sent decide
// which requests share a response, and which get it from the store.
func TestH2_TheNextHandlerChangesTheFields(t *testing.T) {
	for _, alone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, h1, weirhttp.Options{NoCoalescing: alone}, func(w http.ResponseWriter, r *http.Request) {
				key := r.Header.Get("X-Api-Key")
				r.Header.Del("X-Api-Key")
				time.Sleep(slow)
				if r.URL.Path == "/stored" {
					w.Header().Set("Cache-Control", "max-age=60")
					w.Header().Set("Vary", "X-Api-Key")
				}
				_, _ = io.WriteString(w, "for "+key)
			})
			for _, path := range []string{"/waiting", "/stored"} {
				first := make(chan reply)
				go func() { first <- s.get(path, "X-Api-Key", "alice") }()
				time.Sleep(slow / 2)
				s.get(path).want(t, 200, "for ")
				(<-first).want(t, 200, "for alice")
			}
			s.get("/stored").want(t, 200, "for ")
			s.get("/stored", "X-Api-Key", "alice").want(t, 200, "for alice")
			s.wantCalls(4)
		})
	}
}

func TestH2_NobodyJoinsAfterTheHeadWithoutFreshness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			time.Sleep(slow)
		})
		go s.get("/a")
		time.Sleep(slow / 2)
		s.get("/a").want(t, 200, "x")
		s.wantCalls(2)
	})
}

func TestH2_VaryDecidesForEachWhoWaits(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, echo("Accept-Language", "Vary", "Accept-Language", "Cache-Control", "max-age=60"))
			replies := s.together(12, func(i int) *http.Request {
				return s.request(t.Context(), "GET", "/a", "Accept-Language", fmt.Sprint("l", i%3), "X-Other", strconv.Itoa(i))
			})
			for i, r := range replies {
				r.want(t, 200, fmt.Sprint("l", i%3))
				if r.took > 2*slow {
					t.Errorf("%d waited %v; want at most %v", i, r.took, 2*slow)
				}
			}
			s.wantCalls(3)
		})
	})
}

func TestH3_Credentials(t *testing.T) {
	rows := []struct {
		field, control string
		stored, joins  bool
	}{
		{"Authorization", "max-age=60", false, false},
		{"Authorization", "public, max-age=60", true, true},
		{"Authorization", "s-maxage=60", true, true},
		{"Authorization", "must-revalidate, max-age=60", true, true},
		{"Cookie", "max-age=60", false, false},
		{"Cookie", "public, max-age=60", true, true},
		{"Cookie", "s-maxage=60", true, true},
		{"Cookie", "must-revalidate, max-age=60", false, false},
	}
	for _, row := range rows {
		t.Run(row.field+" "+row.control, func(t *testing.T) {
			both(t, func(t *testing.T, p protocol) {
				synctest.Test(t, func(t *testing.T) {
					s := open(t, p, weirhttp.Options{}, answering(slow, "Cache-Control", row.control))
					for _, r := range s.together(5, s.same("/a", row.field, "me=1")) {
						if r.took != slow {
							t.Errorf("one of the first requests with %s waited %v; want %v", row.field, r.took, slow)
						}
					}
					s.wantCalls(5)
					time.Sleep(time.Second)
					s.get("/a", row.field, "me=2")
					s.get("/a")
					want := map[bool]int64{true: 5, false: 7}[row.stored]
					s.wantCalls(want)
					time.Sleep(time.Hour)
					s.together(5, s.same("/a", row.field, "me=3"))
					if row.joins {
						want++
					} else {
						want += 5
					}
					s.wantCalls(want)
				})
			})
		})
	}
}

func TestH3_AdmissionIsProvedAgainAtEachHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		control := "public, max-age=1"
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(slow)
			w.Header().Set("Cache-Control", control)
			_, _ = io.WriteString(w, r.Header.Get("Cookie"))
		})
		s.get("/a", "Cookie", "u=0")
		time.Sleep(time.Hour)
		control = "max-age=1" // no longer for all clients
		replies := s.together(5, func(i int) *http.Request {
			return s.request(t.Context(), "GET", "/a", "Cookie", fmt.Sprint("u=", i))
		})
		for i, r := range replies {
			r.want(t, 200, fmt.Sprint("u=", i))
		}
		s.wantCalls(6)
		for _, r := range s.together(5, s.same("/a", "Cookie", "u=1")) {
			if r.took != slow {
				t.Errorf("after that a request waited %v; want %v", r.took, slow)
			}
		}
	})
}

func TestH3_WhoAsksWithCredentialsDoesNotStopOthersFromSharing(t *testing.T) {
	for _, fields := range [][]string{{"Authorization", "me"}, {"Cookie", "a=b"}, {"Cache-Control", "no-store"}} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, h1, weirhttp.Options{}, answering(slow, "Cache-Control", "max-age=1"))
			s.get("/a", fields...)
			for _, r := range s.together(20, s.same("/a")) {
				r.want(t, 200, "/a")
			}
			s.wantCalls(2)
		})
	}
}

// An unshareable response to a request with credentials says nothing about requests
// without any, and about those with credentials what it says lasts, whatever the others
// get.
func TestH7_UnshareableForCredentialsOnly(t *testing.T) {
	for _, field := range []string{"Authorization", "Cookie"} {
		for _, control := range []string{"private", "no-store", "no-cache"} {
			synctest.Test(t, func(t *testing.T) {
				o := weirhttp.Options{Policy: weirhttp.Policy{Vary: []string{field}}} // such requests may wait for each other
				s := open(t, h1, o, func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(slow)
					if r.Header.Get(field) != "" {
						w.Header().Set("Cache-Control", control)
					}
					_, _ = io.WriteString(w, r.Header.Get(field))
				})
				s.get("/a", field, "me=1").want(t, 200, "me=1")
				for i, r := range s.together(20, s.same("/a")) {
					if r.want(t, 200, ""); r.took != slow {
						t.Errorf("%s %s: client %d waited %v; want %v", field, control, i, r.took, slow)
					}
				}
				s.wantCalls(2)
				for i, r := range s.together(5, s.same("/a", field, "me=1")) {
					if r.want(t, 200, "me=1"); r.took != slow {
						t.Errorf("%s %s: user %d waited %v; want %v", field, control, i, r.took, slow)
					}
				}
				s.wantCalls(7)
				time.Sleep(time.Minute)
				control = "max-age=1" // now for all with these credentials
				s.together(5, s.same("/a", field, "me=1"))
				s.wantCalls(8)
			})
		}
	}
}

func TestH3_IgnoredCredentialsAreNotForwarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := weirhttp.Options{Policy: weirhttp.Policy{
			IgnoreHeaders: []string{"Authorization"}, IgnoreCookies: []string{"*"}, VaryCookies: []string{"lang"},
		}}
		s := open(t, h1, o, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(slow)
			w.Header().Set("Cache-Control", "max-age=60")
			_, _ = io.WriteString(w, r.Header.Get("Authorization")+"|"+r.Header.Get("Cookie"))
		})
		replies := s.together(12, func(i int) *http.Request {
			return s.request(t.Context(), "GET", "/a", "Authorization", strconv.Itoa(i), "Cookie", fmt.Sprintf("s=%d; lang=l%d", i, i%2))
		})
		for i, r := range replies {
			r.want(t, 200, fmt.Sprintf("|lang=l%d", i%2))
		}
		s.wantCalls(2)
	})
}

func TestH3_WhatIsStoredForNobodyInParticularIsNotForCredentials(t *testing.T) {
	for _, field := range []string{"Authorization", "Cookie"} {
		both(t, func(t *testing.T, p protocol) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, p, weirhttp.Options{}, echo(field, "Cache-Control", "max-age=60"))
				s.get("/a").want(t, 200, "")
				s.get("/a", field, "me").want(t, 200, "me")
				s.get("/a").want(t, 200, "") // and the response to credentials is not stored
				s.wantCalls(2)
			})
		})
	}
}
