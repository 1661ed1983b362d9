package fleetlab_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/lab/fleetlab"
)

// send sends a request to a handler and returns the status and the body.
func send(h http.Handler, method, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, strings.TrimSpace(w.Body.String())
}

// asked sends a GET and returns the Answer.
func asked(t *testing.T, h http.Handler, path string) fleetlab.Answer {
	t.Helper()
	status, body := send(h, http.MethodGet, path)
	var a fleetlab.Answer
	if err := json.Unmarshal([]byte(body), &a); err != nil || status != http.StatusOK {
		t.Fatalf("GET %s = %d, %q; want an answer", path, status, body)
	}
	return a
}

func TestSourceCountsAndChanges(t *testing.T) {
	var running atomic.Int64
	s := fleetlab.NewSource(0, func() func() { running.Add(1); return func() { running.Add(-1) } })
	if a := asked(t, s, "/load/k?by=me"); a != (fleetlab.Answer{Key: "k", Version: 1}) {
		t.Errorf("load = %+v; want version 1 of k", a)
	}
	if _, v := send(s, http.MethodPost, "/change/k"); v != "2" {
		t.Errorf("change = %s; want 2", v)
	}
	if a := asked(t, s, "/load/k?by=me"); a.Version != 2 {
		t.Errorf("load after a change = %+v; want version 2", a)
	}
	if a := asked(t, s, "/load/other?by=me"); a.Version != 1 {
		t.Errorf("load of another key = %+v; want version 1", a)
	}
	for path, want := range map[string]string{"/loads/k": "2", "/loads/other": "1", "/loads/none": "0", "/holder/k": ""} {
		if _, got := send(s, http.MethodPost, path); got != want {
			t.Errorf("POST %s = %q; want %q", path, got, want)
		}
	}
	if n := running.Load(); n != 0 {
		t.Errorf("%d calls have not ended", n)
	}
	if status, _ := send(s, http.MethodPost, "/nothing/k"); status != http.StatusNotFound {
		t.Errorf("POST /nothing/k = %d; want 404", status)
	}
}

// A load that is overtaken returns the version that was current when it began.
func TestSourceAnswersWithWhatWasThere(t *testing.T) {
	s := fleetlab.NewSource(30*time.Millisecond, func() func() { return func() {} })
	loaded := make(chan fleetlab.Answer)
	go func() { loaded <- asked(t, s, "/load/k?by=me") }()
	for {
		if _, who := send(s, http.MethodPost, "/holder/k"); who == "me" {
			break
		}
		time.Sleep(time.Millisecond)
	}
	send(s, http.MethodPost, "/change/k")
	if a := <-loaded; a.Version != 1 {
		t.Errorf("load = %+v; want version 1, as it began before the change", a)
	}
}

// A call for a held key lasts until the key is freed or its caller leaves. Other
// calls are not affected.
func TestSourceHoldsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 100 * time.Millisecond
		s := fleetlab.NewSource(wait, func() func() { return func() {} })
		for range 2 { // once is enough
			send(s, http.MethodPost, "/hold/k")
		}
		began := time.Now()
		took := make(chan time.Duration)
		go func() {
			asked(t, s, "/load/k?by=me")
			took <- time.Since(began)
		}()
		gone, leave := context.WithCancel(t.Context())
		go func() {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(gone, http.MethodGet, "/load/k?by=another", nil))
			took <- time.Since(began)
		}()
		if asked(t, s, "/load/other?by=me"); time.Since(began) != wait {
			t.Errorf("a call for another key took %v; want %v", time.Since(began), wait)
		}
		leave()
		if d := <-took; d != wait {
			t.Errorf("the caller that left got its error after %v; want %v", d, wait)
		}
		time.Sleep(time.Hour - wait)
		for range 2 {
			send(s, http.MethodPost, "/free/k")
		}
		if d := <-took; d != time.Hour+wait {
			t.Errorf("the held call took %v; want %v", d, time.Hour+wait)
		}
		began = time.Now()
		if asked(t, s, "/load/k?by=me"); time.Since(began) != wait {
			t.Errorf("a call for the freed key took %v; want %v", time.Since(began), wait)
		}
	})
}

// An Instance alone has a cache and flights, and no fleet.
func TestInstanceAlone(t *testing.T) {
	var loads atomic.Int64
	source := httptest.NewServer(fleetlab.NewSource(0, func() func() { loads.Add(1); return func() {} }))
	defer source.Close()
	i, err := fleetlab.NewInstance(fleetlab.InstanceOptions{Name: "i1", Source: source.URL, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	first, second := asked(t, i, "/get/k"), asked(t, i, "/get/k")
	if first.Key != "k" || first.Version != 1 || first.Instance != "i1" || first.From == second.From || loads.Load() != 1 {
		t.Errorf("get = %+v, then %+v, with %d loads; want version 1 of k by i1, loaded once", first, second, loads.Load())
	}
	resp, err := http.Post(source.URL+"/change/k", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body) //nolint:errcheck // it is a number
	resp.Body.Close()
	if status, body := send(i, http.MethodPost, "/invalidate/k"); status != http.StatusNoContent {
		t.Errorf("invalidate = %d, %q; want 204", status, body)
	}
	if a := asked(t, i, "/get/k"); a.Version != 2 {
		t.Errorf("get after a change and an invalidation = %+v; want version 2", a)
	}
	source.Close()
	if status, body := send(i, http.MethodGet, "/get/another"); status != http.StatusBadGateway || !strings.HasPrefix(body, "i1: ") {
		t.Errorf("get without a source = %d, %q; want 502 and the instance's name", status, body)
	}
}

func TestBrokenMustBeKnown(t *testing.T) {
	_, err := fleetlab.NewInstance(fleetlab.InstanceOptions{Engine: fleetlab.Engine{Addrs: []string{"127.0.0.1:1"}, Namespace: "n", Broken: "luck"}})
	if err == nil || !strings.Contains(err.Error(), "luck") {
		t.Errorf("NewInstance = %v; want an error about the unknown way luck", err)
	}
}
