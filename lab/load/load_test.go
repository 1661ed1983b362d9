package load_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/load"
)

// These tests use real sockets, like the lab. Times depend on the machine, so they
// check only counts.

func TestRunOverSockets(t *testing.T) {
	var got atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/plain", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "good") })
	mux.HandleFunc("/chunked", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "go")
		w.(http.Flusher).Flush()
		fmt.Fprint(w, "od, good")
	})
	mux.HandleFunc("/none", func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Lab") == "yes" {
			w.WriteHeader(http.StatusNoContent)
		}
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		got.Add(1)
		mux.ServeHTTP(w, req)
	}))
	defer server.Close()

	for _, without := range []bool{false, true} {
		for _, s := range []load.Spec{
			{Clients: 1000, Requests: 3000},
			{Mode: load.Open, Rate: 3000, Requests: 3000},
		} {
			got.Store(0)
			s.URLs = []string{server.URL + "/plain", server.URL + "/chunked", server.URL + "/none"}
			s.Header, s.NoKeepAlive, s.Timeout = map[string]string{"X-Lab": "yes"}, without, time.Minute
			r, err := load.Run(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if r.Good != 3000 || r.Failures != 0 || got.Load() != 3000 || r.Statuses[200] != 2000 || r.Statuses[204] != 1000 {
				t.Errorf("%v: %d good, %d failures (%s), %d seen, statuses %v; want 3000, none, 3000, two thirds 200 and one 204",
					s, r.Good, r.Failures, r.FirstFailure, got.Load(), r.Statuses)
			}
			if r.CPUTime <= 0 || r.Latency.Count() != 3000 {
				t.Errorf("%v: CPU time %v, %d latencies; want some, 3000", s, r.CPUTime, r.Latency.Count())
			}
		}
	}
}

func TestRunOverTLSRefusesAnUnknownCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	r, err := load.Run(t.Context(), load.Spec{URLs: []string{server.URL}, Clients: 1, Requests: 1})
	if err != nil || r.Failures != 1 || !strings.Contains(r.FirstFailure, "certificate") {
		t.Errorf("Run = %d failures, %q, %v; want one, about the certificate", r.Failures, r.FirstFailure, err)
	}
}

func TestRunWithoutAServerCountsFailures(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	r, err := load.Run(t.Context(), load.Spec{URLs: []string{server.URL}, Clients: 2, Requests: 10})
	if err != nil || r.Failures != 10 || r.Statuses[0] != 10 || !strings.Contains(r.FirstFailure, "refused") || r.Distribution() != nil {
		t.Errorf("Run = %+v, %v; want ten failures, each a refused connection", r, err)
	}
}

func TestMainSpeaksJSON(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	spec, err := json.Marshal(load.Spec{URLs: []string{server.URL}, Clients: 2, Requests: 100, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := load.Main(t.Context(), bytes.NewReader(spec), &out); err != nil {
		t.Fatal(err)
	}
	var r load.Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	d := r.Distribution()
	if r.Good != 100 || r.Latency.Count() != 100 || len(d) == 0 || d[len(d)-1].Share != 1 {
		t.Errorf("the result is %s, read as %+v; want 100 successful responses with their latencies", &out, r)
	}

	for in, want := range map[string]string{`{"URLS": 1}`: "read the spec", `{"Clinets": 1}`: "Clinets", `{}`: "Spec.URLs"} {
		if err := load.Main(t.Context(), strings.NewReader(in), &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Main(%s) = %v; want an error that contains %q", in, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := load.Main(ctx, bytes.NewReader(spec), &out); err == nil {
		t.Error("Main with an ended context = nil; want an error")
	}
}

func TestRunRefusesASpecWithAllItsFaults(t *testing.T) {
	tests := []struct {
		spec load.Spec
		want []string
	}{
		{load.Spec{}, []string{"URLs", "Clients", "Duration"}},
		{load.Spec{URLs: []string{"http://a", "ftp://b", "http://", "%"}, Clients: 1, Requests: 1}, []string{"URLs[1]", "URLs[2]", "URLs[3]"}},
		{load.Spec{URLs: []string{"http://a"}, Mode: load.Open, Requests: 1, Clients: 3, Connected: true}, []string{"Rate", "Clients", "Connected"}},
		{load.Spec{URLs: []string{"http://a"}, Mode: load.Open, Requests: 1, Rate: math.Inf(1), MaxInFlight: 30_000}, []string{"Rate", "MaxInFlight"}},
		{load.Spec{URLs: []string{"http://a"}, Mode: "ajar", Pick: "best", Skew: math.NaN(), Clients: 30_000, Rate: 1, Requests: -1,
			Duration: -1, Timeout: 48 * time.Hour, Warmup: -1, WarmupRequests: -1, EveryMS: -1, Header: map[string]string{"A": "b\r\nC: d"}},
			[]string{"Pick", "Skew", "Header", "Mode", "Clients", "Rate", "Requests", "Duration", "Timeout", "Warmup", "WarmupRequests", "EveryMS"}},
	}
	for _, tt := range tests {
		_, err := load.Run(t.Context(), tt.spec)
		var fields []string
		if all, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range all.Unwrap() {
				if f, ok := e.(*load.SpecError); ok {
					fields = append(fields, f.Field)
				}
			}
		}
		if !reflect.DeepEqual(fields, tt.want) {
			t.Errorf("Run(%+v) = %v; want faults of %v", tt.spec, err, tt.want)
		}
	}
}

func TestSpecInWords(t *testing.T) {
	for _, tt := range []struct {
		spec load.Spec
		want string
	}{
		{load.Spec{Clients: 20, Requests: 100}, "20 clients, 100 requests"},
		{load.Spec{Clients: 2, Requests: 2, Connected: true}, "2 clients, connected before, 2 requests"},
		{load.Spec{Clients: 1, Duration: 5 * time.Second, NoKeepAlive: true}, "1 client, without keep-alive, 5s"},
		{load.Spec{Mode: load.Open, Rate: 500, Duration: time.Minute, URLs: []string{"a", "b"}}, "500 requests/s, open loop, 1m0s, 2 URLs in turn"},
		{load.Spec{Clients: 2, Requests: 1, Pick: load.Zipf, Skew: 0.9, URLs: []string{"a", "b"}}, "2 clients, 1 request, 2 URLs, Zipf 0.9"},
		{load.Spec{Clients: 2, Requests: 1, Pick: load.Random, URLs: []string{"a", "b"}}, "2 clients, 1 request, 2 URLs at random"},
	} {
		if got := tt.spec.String(); got != tt.want {
			t.Errorf("String = %q; want %q", got, tt.want)
		}
	}
}

func TestPicks(t *testing.T) {
	const n = 100_000
	urls := make([]string, 10)
	if got, want := load.Picks(load.Spec{URLs: urls[:3], Pick: load.Turn}, 7), []int{0, 1, 2, 0, 1, 2, 0}; !reflect.DeepEqual(got, want) {
		t.Errorf("in turn: %v; want %v", got, want)
	}
	for _, tt := range []struct {
		pick string
		skew float64
	}{{load.Random, 0}, {load.Zipf, 0}, {load.Zipf, 0.5}, {load.Zipf, 1}, {load.Zipf, 1.5}} {
		s := load.Spec{URLs: urls, Pick: tt.pick, Skew: tt.skew, Seed: 1}
		picks := load.Picks(s, n)
		var seen [10]float64
		for _, i := range picks {
			seen[i]++
		}
		sum := 0.0
		for r := range urls {
			sum += math.Pow(float64(r+1), -tt.skew)
		}
		for r := range urls {
			share := math.Pow(float64(r+1), -tt.skew) / sum
			sigma := math.Sqrt(n * share * (1 - share))
			if math.Abs(seen[r]-n*share) > 4*sigma {
				t.Errorf("%s %g: rank %d has %v of %d; want %.0f within %.0f", tt.pick, tt.skew, r+1, seen[r], n, n*share, 4*sigma)
			}
		}
		if !reflect.DeepEqual(picks, load.Picks(s, n)) {
			t.Errorf("%s %g: the second run picks differently", tt.pick, tt.skew)
		}
		s.Seed = 2
		if reflect.DeepEqual(picks, load.Picks(s, n)) {
			t.Errorf("%s %g: another seed picks the same", tt.pick, tt.skew)
		}
	}
}
