package weirhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/weirhttp"
)

// A till is a Handler whose calls run at most once, in front of an origin that counts.
type till struct {
	*weirhttp.Handler
	folder *once.Folder
	claims *once.Claims
	ran    atomic.Int64
}

// newTill opens a till with the folder dir.
func newTill(t *testing.T, dir string, o weirhttp.Options, origin http.HandlerFunc) *till {
	t.Helper()
	folder, err := once.OpenFolder(once.FolderOptions{Folder: dir})
	if err != nil {
		t.Fatal(err)
	}
	s := &till{folder: folder, claims: once.NewClaims(folder)}
	if o.Idempotency == nil {
		o.Idempotency = &weirhttp.IdempotencyPolicy{Unknown: weirhttp.UnknownRefuse}
	}
	o.Idempotency.Claims = s.claims
	if s.Handler, err = weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ran.Add(1)
		origin(w, r)
	}), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.shut)
	return s
}

func (s *till) shut() {
	_ = s.Close(context.Background())
	_ = s.claims.Close(context.Background())
	_ = s.folder.Close(context.Background())
}

// pay sends a payment.
func (s *till) pay(key, body string, fields ...string) *httptest.ResponseRecorder {
	return s.payWith(context.Background(), key, body, fields...)
}

func (s *till) payWith(ctx context.Context, key, body string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://shop.example/payments", strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// wants fails t unless w has the status, and text in its body.
func wants(t *testing.T, w *httptest.ResponseRecorder, status int, text string) {
	t.Helper()
	if w.Code != status || !strings.Contains(w.Body.String(), text) {
		t.Errorf("response = %d %q; want %d with %q", w.Code, w.Body, status, text)
	}
}

func created(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	w.Header().Set("Location", "/payments/1")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "paid %s", b)
}

func TestH45_TheAnswerIsReplayed(t *testing.T) {
	s := newTill(t, t.TempDir(), weirhttp.Options{}, created)
	first := s.pay("a", "5")
	wants(t, first, 201, "paid 5")
	again := s.pay("a", "5")
	wants(t, again, 201, "paid 5")
	if s.ran.Load() != 1 || again.Header().Get("Idempotent-Replayed") != "true" || first.Header().Get("Idempotent-Replayed") != "" ||
		again.Header().Get("Location") != "/payments/1" || again.Body.String() != first.Body.String() {
		t.Errorf("ran %d times, fields %v; want one run, and a replay that is marked", s.ran.Load(), again.Header())
	}
	wants(t, s.pay("b", "5"), 201, "paid 5")
	wants(t, s.pay("", "5"), 201, "paid 5")
	if s.ran.Load() != 3 {
		t.Errorf("ran %d times; want 3: another key and none are other calls", s.ran.Load())
	}
}

func TestH45_TheAnswerSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	s := newTill(t, dir, weirhttp.Options{}, created)
	wants(t, s.pay("a", "5"), 201, "paid 5")
	s.shut()
	s = newTill(t, dir, weirhttp.Options{}, created)
	wants(t, s.pay("a", "5"), 201, "paid 5")
	if s.ran.Load() != 0 {
		t.Errorf("ran %d times after the restart; want 0", s.ran.Load())
	}
}

func TestH45_OtherRequestsAndOtherClients(t *testing.T) {
	s := newTill(t, t.TempDir(), weirhttp.Options{Idempotency: &weirhttp.IdempotencyPolicy{
		Unknown: weirhttp.UnknownRefuse, Required: true, MaxBody: 10,
	}}, created)
	wants(t, s.pay("a", "5", "Authorization", "Bearer x"), 201, "paid 5")
	wants(t, s.pay("a", "6", "Authorization", "Bearer x"), 422, "urn:weir:problem:idempotency-key-reused")
	wants(t, s.pay("a", "5", "Authorization", "Bearer x", "X-Mode", "test"), 422, "idempotency-key-reused")
	wants(t, s.pay("a", "5", "Authorization", "Bearer y"), 409, "urn:weir:problem:idempotency-key-foreign")
	wants(t, s.pay("a", "5"), 409, "idempotency-key-foreign")
	wants(t, s.pay("", "5"), 400, "urn:weir:problem:idempotency-key-required")
	wants(t, s.pay("a b", "5"), 400, "urn:weir:problem:idempotency-key-malformed")
	wants(t, s.pay("c", "12345678901"), 413, "")
	if w := s.pay("", "5"); w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("Content-Type = %q; want application/problem+json", w.Header().Get("Content-Type"))
	}
	for _, fields := range [][]string{{"User-Agent", "curl"}, {"X-Request-Id", "7"}, {"Traceparent", "00-1"}, {"X-Forwarded-For", "10.0.0.9"}} {
		wants(t, s.pay("a", "5", append(fields, "Authorization", "Bearer x")...), 201, "paid 5")
	}
	if s.ran.Load() != 1 {
		t.Errorf("ran %d times; want 1", s.ran.Load())
	}
}

func TestH45_PrincipalInsteadOfCredentials(t *testing.T) {
	trusted := true
	s := newTill(t, t.TempDir(), weirhttp.Options{Idempotency: &weirhttp.IdempotencyPolicy{
		Unknown: weirhttp.UnknownRefuse, Principal: []string{"x-user"}, Trusted: func(*http.Request) bool { return trusted },
	}}, created)
	wants(t, s.pay("a", "5", "X-User", "eve", "Authorization", "Bearer 1"), 201, "paid 5")
	wants(t, s.pay("a", "5", "X-User", "eve", "Authorization", "Bearer 2"), 201, "paid 5")
	wants(t, s.pay("a", "5", "X-User", "bob", "Authorization", "Bearer 1"), 409, "idempotency-key-foreign")
	trusted = false
	wants(t, s.pay("a", "5", "X-User", "eve", "Authorization", "Bearer 1"), 409, "idempotency-key-foreign")
	if s.ran.Load() != 1 {
		t.Errorf("ran %d times; want 1", s.ran.Load())
	}
}

func TestH45_PrincipalWithOtherTenants(t *testing.T) {
	s := newTill(t, t.TempDir(), weirhttp.Options{Idempotency: &weirhttp.IdempotencyPolicy{
		Unknown: weirhttp.UnknownRefuse, Principal: []string{"X-User"}, Trusted: func(*http.Request) bool { return true },
	}}, created)
	for _, name := range []string{"X-Account-Id", "X-Tenant-Id", "X-Tenant", "X-Org-Id", "X-Organization", "Openai-Organization", "Openai-Project", "X-Scope-Orgid", "X-User-Id", "X-Forwarded-User"} {
		wants(t, s.pay(name, "5", "X-User", "eve", name, "1"), 201, "paid 5")
		wants(t, s.pay(name, "5", "X-User", "eve", name, "1"), 201, "paid 5")
		wants(t, s.pay(name, "5", "X-User", "eve", name, "2"), 422, "idempotency-key-reused")
		wants(t, s.pay(name, "5", "X-User", "eve"), 422, "idempotency-key-reused")
	}
	for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "X-Auth-Token", "X-Session-Id", "X-Amzn-Oidc-Data", "X-Forwarded-Client-Cert"} {
		wants(t, s.pay(name, "5", "X-User", "eve", name, "1"), 201, "paid 5")
		wants(t, s.pay(name, "5", "X-User", "eve", name, "2"), 201, "paid 5")
	}
	if s.ran.Load() != 17 {
		t.Errorf("ran %d times; want 17", s.ran.Load())
	}
}

func TestH45_WhatAServerHasNotDoneRunsAgain(t *testing.T) {
	for _, status := range []int{401, 403, 407, 408, 425, 429, 503} {
		s := newTill(t, t.TempDir(), weirhttp.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(status)
		})
		wants(t, s.pay("a", "5"), status, "")
		wants(t, s.pay("a", "5"), status, "")
		if s.ran.Load() != 2 {
			t.Errorf("%d: ran %d times; want 2", status, s.ran.Load())
		}
	}
	s := newTill(t, t.TempDir(), weirhttp.Options{Idempotency: &weirhttp.IdempotencyPolicy{Unknown: weirhttp.UnknownRefuse, Keep: []int{403}}},
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) })
	wants(t, s.pay("a", "5"), 403, "")
	wants(t, s.pay("a", "5"), 403, "")
	if s.ran.Load() != 1 {
		t.Errorf("with Keep: ran %d times; want 1", s.ran.Load())
	}
}

func TestH45_AStatusInKeepIsKept(t *testing.T) {
	for _, status := range []int{401, 403, 407, 408, 425, 429, 503} {
		for name, size := range map[string]int{"kept": 10, "too large": 3000} {
			retryAfter := "1"
			s := newTill(t, t.TempDir(), weirhttp.Options{Idempotency: &weirhttp.IdempotencyPolicy{
				Unknown: weirhttp.UnknownRefuse, Keep: []int{status}, MaxResponse: 1000,
			}}, func(w http.ResponseWriter, _ *http.Request) {
				if retryAfter != "" {
					w.Header().Set("Retry-After", retryAfter)
				}
				w.WriteHeader(status)
				_, _ = w.Write(make([]byte, size))
			})
			wants(t, s.pay("a", "5"), status, "")
			if again := s.pay("a", "5"); size == 10 {
				wants(t, again, status, "")
			} else {
				wants(t, again, 409, "idempotency-response-not-kept")
			}
			if s.ran.Load() != 1 {
				t.Errorf("%d, %s: ran %d times; want 1", status, name, s.ran.Load())
			}
			if retryAfter = ""; status == 503 { // without the field, the server says nothing
				wants(t, s.pay("b", "5"), 503, "")
				wants(t, s.pay("b", "5"), 409, "idempotency-outcome-unknown")
			}
		}
	}
}

func TestH45_WhatNobodySawIsUnknown(t *testing.T) {
	for name, origin := range map[string]http.HandlerFunc{
		"500":           func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"503 without":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"panic":         func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a broken body": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")); panic(http.ErrAbortHandler) },
		"a shorter body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = w.Write([]byte("x"))
		},
		"no response": func(w http.ResponseWriter, _ *http.Request) { weirhttp.SinkOf(w).Fail(io.ErrUnexpectedEOF) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var events doubts
			s := newTill(t, dir, weirhttp.Options{Gateway: true, Observer: &events}, origin)
			if w := s.pay("a", "5"); w.Code < 500 {
				t.Errorf("first = %d; want a failure", w.Code)
			}
			for range 2 {
				wants(t, s.pay("a", "5"), 409, "urn:weir:problem:idempotency-outcome-unknown")
			}
			if st := s.claims.Stats(); st.Unknown != 1 || events.told.Load() != 1 {
				t.Errorf("%d unknown, told %d times; want 1, once", st.Unknown, events.told.Load())
			}
			s.shut()
			s = newTill(t, dir, weirhttp.Options{Gateway: true}, origin)
			wants(t, s.pay("a", "5"), 409, "urn:weir:problem:idempotency-outcome-unknown")
			if s.ran.Load() != 0 {
				t.Errorf("ran %d times after the restart; want 0", s.ran.Load())
			}
			all, err := s.claims.Unknown(t.Context(), 10)
			if err != nil || len(all) != 1 || all[0].Call != "POST /payments" {
				t.Fatalf("Unknown = %v, %v; want the call", all, err)
			}
			if err := s.claims.Settle(t.Context(), all[0].ID, true); err != nil {
				t.Fatal(err)
			}
			wants(t, s.pay("a", "5"), 409, "urn:weir:problem:idempotency-response-not-kept")
		})
	}
}

// doubts counts EventUnknown.
type doubts struct {
	weirhttp.NopObserver
	told atomic.Int64
}

func (d *doubts) Event(_ context.Context, e weirhttp.Event) {
	if u := new(weirhttp.UnknownOutcomeError); e.Kind == weirhttp.EventUnknown && errors.As(e.Err, &u) && u.Call == "POST /payments" && u.Reason != "" {
		d.told.Add(1)
	}
}

// An outcome that the store cannot record is reported: the log is the only place that has it.
func TestH45_AnOutcomeThatCannotBeStoredIsReported(t *testing.T) {
	var events doubts
	var s *till
	s = newTill(t, t.TempDir(), weirhttp.Options{Observer: &events}, func(w http.ResponseWriter, r *http.Request) {
		_ = s.folder.Close(context.Background()) // as a full disk
		created(w, r)
	})
	wants(t, s.pay("a", "5"), 409, "idempotency-outcome-unknown")
	if st := s.claims.Stats(); events.told.Load() != 1 || st.Unknown != 1 {
		t.Errorf("told %d times, %d unknown; want 1, 1", events.told.Load(), st.Unknown)
	}
}

// A call that runs is not counted as unknown, and one with a kept response is not reported.
func TestH45_ARunningCallIsNotUnknown(t *testing.T) {
	var events doubts
	var s *till
	s = newTill(t, t.TempDir(), weirhttp.Options{Observer: &events}, func(w http.ResponseWriter, r *http.Request) {
		if st := s.claims.Stats(); st.Unknown != 0 || st.Usage.Claimed != 1 {
			t.Errorf("Stats = %+v; want one that is claimed, and none that is unknown", st)
		}
		created(w, r)
	})
	wants(t, s.pay("a", "5"), 201, "paid 5")
	if st := s.claims.Stats(); events.told.Load() != 0 || st.Unknown != 0 {
		t.Errorf("told %d times, %d unknown; want none", events.told.Load(), st.Unknown)
	}
}

// 1xx responses reach the client that leads before the response, and are not kept.
func TestH45_InterimResponsesArePassedOn(t *testing.T) {
	for name, tt := range map[string]struct {
		size int
		wait bool
	}{"kept": {10, false}, "streamed": {1 << 20, false}, "while it runs": {10, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, t.TempDir(), weirhttp.Options{Gateway: true}, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Link", "</style.css>; rel=preload")
					w.WriteHeader(http.StatusEarlyHints)
					w.WriteHeader(http.StatusProcessing)
					if w.Header().Del("Link"); tt.wait {
						time.Sleep(10 * time.Second)
					}
					_, _ = w.Write(make([]byte, tt.size))
				})
				began := time.Now()
				w := &interim{ResponseRecorder: httptest.NewRecorder()}
				r := httptest.NewRequest(http.MethodPost, "http://shop.example/payments", nil)
				r.Header.Set("Idempotency-Key", "a")
				s.ServeHTTP(w, r)
				if got := fmt.Sprint(w.told); got != "[103 </style.css>; rel=preload 102 </style.css>; rel=preload]" || w.Code != 200 || w.Body.Len() != tt.size || w.Header().Get("Link") != "" {
					t.Errorf("interim responses %v, then %d with %d bytes and Link %q; want 103 and 102, and %d bytes without one", got, w.Code, w.Body.Len(), w.Header().Get("Link"), tt.size)
				}
				if tt.wait && w.first.Sub(began) != 0 {
					t.Errorf("the first came after %v; want immediately", w.first.Sub(began))
				}
				again := &interim{ResponseRecorder: httptest.NewRecorder()}
				s.ServeHTTP(again, r)
				if len(again.told) != 0 {
					t.Errorf("the repeated request got %v; want none", again.told)
				}
				s.shut()
			})
		})
	}
}

// interim is a ResponseRecorder that notes 1xx responses, each with its Link.
type interim struct {
	*httptest.ResponseRecorder
	told  []string
	first time.Time
}

func (w *interim) WriteHeader(status int) {
	if status >= 200 {
		w.ResponseRecorder.WriteHeader(status)
		return
	}
	if w.told == nil {
		w.first = time.Now()
	}
	w.told = append(w.told, fmt.Sprint(status), w.Header().Get("Link"))
}

// A replay made no call, which its Cache-Status must not say.
func TestH45_AReplayIsNoForward(t *testing.T) {
	s := newTill(t, t.TempDir(), weirhttp.Options{}, created)
	if got := s.pay("a", "5").Header().Get("Cache-Status"); got != "weir; fwd=method; fwd-status=201" {
		t.Errorf("first: Cache-Status = %q", got)
	}
	if got := s.pay("a", "5").Header().Get("Cache-Status"); got != `weir; hit; detail="idempotent-replay"` {
		t.Errorf("replay: Cache-Status = %q; want a hit", got)
	}
}

func TestH45_SettledAsNotDoneRunsAgain(t *testing.T) {
	fails := true
	s := newTill(t, t.TempDir(), weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
		if fails {
			w.WriteHeader(500)
			return
		}
		created(w, r)
	})
	wants(t, s.pay("a", "5"), 500, "")
	all, err := s.claims.Unknown(t.Context(), 10)
	if err != nil || len(all) != 1 {
		t.Fatalf("Unknown = %v, %v; want the call", all, err)
	}
	if err := s.claims.Settle(t.Context(), all[0].ID, false); err != nil {
		t.Fatal(err)
	}
	fails = false
	wants(t, s.pay("a", "5"), 201, "paid 5")
	if err := s.claims.Settle(t.Context(), all[0].ID, false); err == nil {
		t.Error("Settle of a call that was answered = nil; want an error")
	}
}

func TestH45_ForwardSendsAnUnknownCallAgain(t *testing.T) {
	fails := true
	s := newTill(t, t.TempDir(), weirhttp.Options{Idempotency: &weirhttp.IdempotencyPolicy{Unknown: weirhttp.UnknownForward}},
		func(w http.ResponseWriter, r *http.Request) {
			if fails {
				w.WriteHeader(502)
				return
			}
			created(w, r)
		})
	wants(t, s.pay("a", "5"), 502, "")
	fails = false
	wants(t, s.pay("a", "5"), 201, "paid 5")
	wants(t, s.pay("a", "5"), 201, "paid 5")
	if s.ran.Load() != 2 {
		t.Errorf("ran %d times; want 2", s.ran.Load())
	}
}

func TestH45_RequestsJoinACallThatBelongsToNoClient(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, dir, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(10 * time.Second):
			case <-r.Context().Done():
				return // the wrong way
			}
			created(w, r)
		})
		left, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		got := make(chan *httptest.ResponseRecorder, 20)
		go s.payWith(left, "a", "5")
		synctest.Wait()
		for range 10 {
			go func() { got <- s.pay("a", "5") }()
		}
		time.Sleep(5 * time.Second)
		wants(t, s.pay("a", "6"), 422, "idempotency-key-reused")
		wants(t, s.pay("a", "5", "Authorization", "x"), 409, "idempotency-key-foreign")
		for range 10 {
			wants(t, <-got, 201, "paid 5")
		}
		wants(t, s.pay("a", "5"), 201, "paid 5")
		if s.ran.Load() != 1 {
			t.Errorf("ran %d times; want 1", s.ran.Load())
		}
	})
}

func TestH45_TooLargeToKeepIsRememberedAsDone(t *testing.T) {
	for name, origin := range map[string]http.HandlerFunc{
		"declared": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3000")
			_, _ = w.Write(make([]byte, 3000))
		},
		"in pieces": func(w http.ResponseWriter, _ *http.Request) {
			for range 30 {
				_, _ = w.Write(make([]byte, 100))
			}
		},
		"a stream": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write(make([]byte, 3000))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := func() weirhttp.Options {
				return weirhttp.Options{Idempotency: &weirhttp.IdempotencyPolicy{Unknown: weirhttp.UnknownRefuse, MaxResponse: 1000}}
			}
			s := newTill(t, dir, o(), origin)
			if w := s.pay("a", "5"); w.Code != 200 || w.Body.Len() != 3000 {
				t.Errorf("first = %d, %d bytes; want all of it", w.Code, w.Body.Len())
			}
			wants(t, s.pay("a", "5"), 409, "urn:weir:problem:idempotency-response-not-kept")
			s.shut()
			s = newTill(t, dir, o(), origin)
			wants(t, s.pay("a", "5"), 409, "urn:weir:problem:idempotency-response-not-kept")
			left, leave := context.WithCancel(t.Context())
			leave()
			s.payWith(left, "b", "5")
			wants(t, s.pay("b", "5"), 409, "urn:weir:problem:idempotency-response-not-kept")
			if s.ran.Load() != 1 {
				t.Errorf("ran %d times; want 1", s.ran.Load())
			}
		})
	}
}

func TestH45_RefusedByALimitHasNoClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newTill(t, t.TempDir(), weirhttp.Options{Limiter: oneAtATime(t)}, func(w http.ResponseWriter, r *http.Request) {
			<-release
			created(w, r)
		})
		done := make(chan *httptest.ResponseRecorder)
		go func() { done <- s.pay("a", "5") }()
		synctest.Wait()
		wants(t, s.pay("b", "5"), 503, "")
		close(release)
		wants(t, <-done, 201, "paid 5")
		wants(t, s.pay("b", "5"), 201, "paid 5")
	})
}

func oneAtATime(t *testing.T) limit.Limiter {
	t.Helper()
	l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Name: "one", Limit: 1, Queue: -1})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestH45_AnOfferToUpgradeDoesNotEvadeTheClaim(t *testing.T) {
	var offered atomic.Int64
	s := newTill(t, t.TempDir(), weirhttp.Options{Idempotency: &weirhttp.IdempotencyPolicy{Unknown: weirhttp.UnknownRefuse, Required: true}},
		func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") != "" {
				offered.Add(1)
			}
			created(w, r)
		})
	for _, protocol := range []string{"websocket", "h2c"} {
		wants(t, s.pay(protocol, "5", "Connection", "Upgrade", "Upgrade", protocol), 201, "paid 5")
		wants(t, s.pay(protocol, "5", "Connection", "Upgrade", "Upgrade", protocol), 201, "paid 5")
		wants(t, s.pay(protocol, "5"), 201, "paid 5")
		wants(t, s.pay("", "5", "Connection", "Upgrade", "Upgrade", protocol), 400, "idempotency-key-required")
	}
	r := httptest.NewRequest(http.MethodPost, "http://shop.example/payments", strings.NewReader("5"))
	r.Header.Set("Upgrade", "websocket")
	if e := s.Explain(r); !strings.Contains(fmt.Sprint(e), "which the route requires") {
		t.Errorf("Explain = %v; want that the key is missing", e)
	}
	if s.ran.Load() != 2 || offered.Load() != 0 {
		t.Errorf("ran %d times, %d of them with Upgrade; want one for each key, and none", s.ran.Load(), offered.Load())
	}
}

func TestH45_JoinersDoNotWaitForAStreamedResponse(t *testing.T) {
	for name, c := range map[string]struct {
		status, want int
		text         string
		runs         int64
	}{
		"freed":   {429, 201, "paid 5", 2},
		"unknown": {500, 409, "idempotency-outcome-unknown", 1},
		"done":    {200, 409, "idempotency-response-not-kept", 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				release, first := make(chan struct{}), atomic.Bool{}
				s := newTill(t, dir, weirhttp.Options{HeadTimeout: -1, IdleTimeout: -1, Idempotency: &weirhttp.IdempotencyPolicy{
					Unknown: weirhttp.UnknownRefuse, MaxResponse: 1000,
				}}, func(w http.ResponseWriter, r *http.Request) {
					if first.Swap(true) {
						created(w, r)
						return
					}
					time.Sleep(time.Second)
					w.WriteHeader(c.status)
					_, _ = w.Write(make([]byte, 3000))
					<-release
				})
				leads, joins := make(chan *httptest.ResponseRecorder, 1), make(chan *httptest.ResponseRecorder, 3)
				go func() { leads <- s.pay("a", "5") }()
				synctest.Wait()
				for range 3 {
					go func() { joins <- s.pay("a", "5") }()
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if len(joins) != 3 {
					t.Errorf("%d of 3 requests that joined have a response while the first is streamed", len(joins))
				}
				close(release)
				for range 3 {
					wants(t, <-joins, c.want, c.text)
				}
				if w := <-leads; w.Code != c.status || w.Body.Len() != 3000 {
					t.Errorf("first = %d, %d bytes; want all of it", w.Code, w.Body.Len())
				}
				if s.ran.Load() != c.runs {
					t.Errorf("ran %d times; want %d", s.ran.Load(), c.runs)
				}
			})
		})
	}
}

func TestH45_AnAbandonedStreamEnds(t *testing.T) {
	dir := t.TempDir()
	for name, leaves := range map[string]time.Duration{"before the response": time.Second, "after it": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan time.Time, 1)
				s := newTill(t, dir+"/"+name, weirhttp.Options{HeadTimeout: 20 * time.Second, Idempotency: &weirhttp.IdempotencyPolicy{Unknown: weirhttp.UnknownRefuse}},
					func(w http.ResponseWriter, r *http.Request) {
						defer func() { ended <- time.Now() }()
						time.Sleep(2 * time.Second)
						w.Header().Set("Content-Type", "text/event-stream")
						for r.Context().Err() == nil {
							_, _ = w.Write([]byte("data: x\n\n"))
							time.Sleep(time.Second)
						}
					})
				left, leave := context.WithTimeout(t.Context(), leaves)
				defer leave()
				came := time.Now()
				func() {
					defer func() { _ = recover() }() // the response is cut off
					s.payWith(left, "a", "5")
				}()
				want := max(leaves, 2*time.Second) + 20*time.Second
				if got := (<-ended).Sub(came); got < want || got > want+2*time.Second {
					t.Errorf("the call ended after %v; want %v", got, want)
				}
				wants(t, s.pay("a", "5"), 409, "idempotency-response-not-kept")
			})
		})
	}
}

func TestH45_ABodyWhoseEndIsNotKnownIsNotKept(t *testing.T) {
	s := newTill(t, t.TempDir(), weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
		weirhttp.SinkOf(w).CloseDelimited()
		created(w, r)
	})
	first := s.pay("a", "5")
	wants(t, first, 201, "paid 5")
	if got := first.Header()["Content-Length"]; got != nil {
		t.Errorf("Content-Length = %v; want none", got)
	}
	wants(t, s.pay("a", "5"), 409, "urn:weir:problem:idempotency-response-not-kept")
	if s.ran.Load() != 1 {
		t.Errorf("ran %d times; want 1", s.ran.Load())
	}
}
