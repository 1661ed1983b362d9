package gateway_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/weirhttp"
)

// A sender is a block of testdata/clients.txt.
type sender struct {
	kind, name string // "client", "tracer" or "way"
	vary       []string
	fields     [][2]string
}

func readSenders(t *testing.T) (all map[string][]sender) {
	t.Helper()
	text, err := os.ReadFile("testdata/clients.txt")
	if err != nil {
		t.Fatal(err)
	}
	all = map[string][]sender{}
	for block := range strings.SplitSeq(string(text), "\n\n") {
		var s sender
		for i, line := range strings.Split(strings.TrimSpace(block), "\n") {
			name, value, ok := strings.Cut(line, ": ")
			switch {
			case strings.HasPrefix(line, "#"):
			case i == 0:
				s.kind, s.name, _ = strings.Cut(line, " ")
			case name == "vary":
				s.vary = []string{value}
			case ok:
				s.fields = append(s.fields, [2]string{name, value})
			default:
				t.Fatalf("clients.txt: %q is no field", line)
			}
		}
		if s.kind != "" {
			all[s.kind] = append(all[s.kind], s)
		}
	}
	return all
}

// request returns the next request of client n.
func request(r *rand.Rand, n int, path string, senders ...sender) *http.Request {
	req := httptest.NewRequest(http.MethodGet, "http://shop.example"+path, nil)
	address := fmt.Sprintf("198.51.100.%d", n)
	fill := func(name string) string {
		pick := func(of ...string) string { return of[r.IntN(len(of))] }
		switch name {
		case "uuid":
			return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", r.Uint32(), r.IntN(1<<16), r.IntN(1<<12), r.IntN(1<<12), r.Int64N(1<<48))
		case "hex16":
			return fmt.Sprintf("%016x", r.Uint64())
		case "hex32":
			return fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())
		case "digits":
			return fmt.Sprint(r.Uint32())
		case "date":
			return time.Date(2026, 11, 28, 12, 0, r.IntN(3600), 0, time.UTC).Format(http.TimeFormat)
		case "n":
			return fmt.Sprint(n)
		case "lang":
			return pick("en-US,en;q=0.9", "de-DE,de;q=0.9,en;q=0.8", "fr-FR,fr;q=0.8,en-US;q=0.5", "pt-BR")
		case "page":
			return fmt.Sprintf("https://shop.example/list/%d", r.IntN(20))
		case "address":
			return address
		case "agent":
			return pick("153", "154", "155", "156")
		case "country":
			return []string{"DE", "FR", "US", "BR"}[n%4]
		case "node":
			return fmt.Sprint("node", n%4)
		}
		return ""
	}
	for _, s := range senders {
		for _, field := range s.fields {
			value := field[1]
			for {
				before, rest, ok := strings.Cut(value, "{")
				name, after, ends := strings.Cut(rest, "}")
				if !ok || !ends || fill(name) == "" {
					break
				}
				value = before + fill(name) + after
			}
			req.Header.Set(field[0], value)
		}
		if req.RemoteAddr = address + ":1234"; s.kind == "way" {
			req.RemoteAddr = fmt.Sprintf("10.0.0.%d:443", r.IntN(50)) // a trusted proxy
		}
	}
	return req
}

// With a lifetime of the route, real clients share what they shared before decision 0090, when
// no field counted: 100 clients request 50 URLs each, directly, with each tracer and over each
// way. A field with a country, or with a cache server, makes as many calls as there are of them.
func TestH2_RealClientsHit(t *testing.T) {
	all := readSenders(t)
	if len(all["client"]) < 20 || len(all["tracer"]) < 5 || len(all["way"]) < 6 {
		t.Fatalf("clients.txt has %d clients, %d tracers, %d ways", len(all["client"]), len(all["tracer"]), len(all["way"]))
	}
	var calls atomic.Int64
	server := serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.WriteString(w, "the page")
	})
	const clients = 100
	urls := histories.Count(10, 50)
	hits := func(r *rand.Rand, vary []string, senders ...sender) float64 {
		c := config(upstreamOf(server))
		c.TrustedProxies = prefixes("10.0.0.0/8")
		c.Routes[0].Cache = weirhttp.Policy{TTL: time.Hour, Vary: vary}
		g, err := gateway.New(c)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := g.Close(t.Context()); err != nil {
				t.Errorf("Close = %v", err)
			}
		}()
		before := calls.Load()
		for url := range urls {
			for n := range clients {
				w := httptest.NewRecorder()
				if g.ServeHTTP(w, request(r, n, fmt.Sprint("/page/", url), senders...)); w.Code != 200 || w.Body.String() != "the page" {
					t.Fatalf("%v: %d %q", senders, w.Code, w.Body)
				}
			}
		}
		return 1 - float64(calls.Load()-before)/float64(clients*urls)
	}
	r := rand.New(rand.NewPCG(1, 2))
	const before = 1 - 1.0/clients
	check := func(s sender, others ...sender) {
		t.Helper()
		names, want := s.name, 0.98*before
		for _, o := range others {
			names += " + " + o.name
			if strings.Contains(fmt.Sprint(o.fields), "{country}") || strings.Contains(fmt.Sprint(o.fields), "{node}") {
				want = 0.98 * (1 - 4.0/clients)
			}
		}
		got := hits(r, s.vary, append([]sender{s}, others...)...)
		t.Logf("%.4f  %s", got, names)
		if got < want {
			t.Errorf("%s: hits %.4f; want %.4f", names, got, want)
		}
	}
	for i, s := range all["client"] {
		check(s)
		check(s, all["way"][i%4]) // a CDN; all of them below
	}
	for _, o := range append(all["tracer"], all["way"]...) {
		check(all["client"][0], o)
		check(all["client"][5], o)
	}
}
