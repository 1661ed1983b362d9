package weirhttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/weirhttp"
)

func TestRequestIDKeepsWhatIsUsable(t *testing.T) {
	for _, e := range []struct {
		ids  []string
		kept bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{"a"}, true},
		{[]string{"a", "b"}, false},
		{[]string{"a b"}, false},
		{[]string{"a\n"}, false},
		{[]string{"é"}, false},
		{[]string{strings.Repeat("x", 128)}, true},
		{[]string{strings.Repeat("x", 129)}, false},
	} {
		h := http.Header{"X-Id": e.ids}
		id, made := weirhttp.RequestID(h, "X-Id")
		if made == e.kept || e.kept && id != e.ids[0] || made && len(id) != 32 || len(h["X-Id"]) != len(e.ids) {
			t.Errorf("RequestID(%q) = %q, %v; want kept %v", e.ids, id, made, e.kept)
		}
	}
}

// H21: Options.RequestID is the name of a field, in any spelling.
func TestH21_TheNameOfTheRequestID(t *testing.T) {
	if _, err := weirhttp.New(http.NotFoundHandler(), weirhttp.Options{RequestID: "x id"}); err == nil || !strings.Contains(err.Error(), "Options.RequestID") {
		t.Errorf("New with a bad name = %v; want a fault of Options.RequestID", err)
	}
	var got string
	h, err := weirhttp.New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("X-Trace") }), weirhttp.Options{RequestID: "x-trace"})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	h.ServeHTTP(w, r)
	if len(got) != 32 || w.Header().Get("X-Trace") != got || len(r.Header) != 0 {
		t.Errorf("the handler got the ID %q, the client %q, and the request has %v; want the same 32 digits, and the request unchanged", got, w.Header().Get("X-Trace"), r.Header)
	}
}

// H21: in observe mode, requests have IDs as well.
func TestH21_RequestIDsInObserveMode(t *testing.T) {
	h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Seen", r.Header.Get("X-Id"))
	}), weirhttp.Options{RequestID: "X-Id", Observe: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	w := &told{ResponseWriter: httptest.NewRecorder()}
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if id := w.last.RequestID; len(id) != 32 || w.Header().Get("X-Id") != id || w.Header().Get("Seen") != id {
		t.Errorf("receipt %q, response %v; want one ID", id, w.Header())
	}
}

// H21: the IDs of other requests cost a hit nothing.
func TestH21_AHitAllocatesNoMoreWithRequestIDs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	hit := func(name string) float64 {
		h, err := weirhttp.New(http.HandlerFunc(shopOrigin), weirhttp.Options{RequestID: name})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close(t.Context())
		r := httptest.NewRequest("GET", "http://shop.example/fresh", nil)
		h.ServeHTTP(httptest.NewRecorder(), r)
		w := &discard{header: http.Header{}}
		return testing.AllocsPerRun(1000, func() { h.ServeHTTP(w, r) })
	}
	if a, b := hit(""), hit("X-Request-Id"); b > a {
		t.Errorf("a hit allocates %v times with request IDs, %v without; want no more", b, a)
	}
}
