package weirhttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/option"
	"github.com/weir-go/weir/weirhttp"
)

// H32, H3: two clients with different credentials of any kind never share, neither one
// after the other nor at once, even if the keys of their bodies collided.
func TestH32_ClientsWithCredentials(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rule   weirhttp.ReadRule
		policy weirhttp.Policy
		a, b   []string
		calls  int64 // for a, a, b, b
	}{
		{"Authorization", byJSON, weirhttp.Policy{TTL: time.Minute}, []string{"Authorization", "Bearer a"}, []string{"Authorization", "Bearer b"}, 4},
		{"Authorization in Vary", byJSON, weirhttp.Policy{TTL: time.Minute, Vary: []string{"Authorization"}}, []string{"Authorization", "Bearer a"}, []string{"Authorization", "Bearer b"}, 2},
		{"Cookie", byJSON, weirhttp.Policy{TTL: time.Minute}, []string{"Cookie", "id=a"}, []string{"Cookie", "id=b"}, 4},
		{"Authorization and nothing", byJSON, weirhttp.Policy{TTL: time.Minute}, []string{"Authorization", "Bearer a"}, nil, 3},
		{"nothing and Authorization", byJSON, weirhttp.Policy{TTL: time.Minute}, nil, []string{"Authorization", "Bearer a"}, 3},
		{"X-Api-Key", byJSON, weirhttp.Policy{TTL: time.Minute}, []string{"X-Api-Key", "a"}, []string{"X-Api-Key", "b"}, 2},
		{"X-Api-Key and nothing", byJSON, weirhttp.Policy{TTL: time.Minute}, []string{"X-Api-Key", "a"}, nil, 2},
		{"X-Api-Key by bytes", byBytes, weirhttp.Policy{TTL: time.Minute}, []string{"x-api-key", "a"}, []string{"x-api-key", "b"}, 2},
		{"two lines of X-Api-Key", byJSON, weirhttp.Policy{TTL: time.Minute}, []string{"X-Api-Key", "a", "X-Api-Key", "b"}, []string{"X-Api-Key", "a"}, 2},
		{"an unknown field", byJSON, weirhttp.Policy{TTL: time.Minute}, []string{"X-Typesense-Api-Key", "a"}, []string{"X-Typesense-Api-Key", "b"}, 2},
		{"an unknown field and nothing", byJSON, weirhttp.Policy{TTL: time.Minute}, []string{"X-Typesense-Api-Key", "a"}, nil, 2},
		{"a field that does not matter", byJSON, weirhttp.Policy{TTL: time.Minute, UnkeyedHeaders: []string{"X-Acme-*"}}, []string{"X-Acme-Trace", "a"}, []string{"X-Acme-Trace", "b"}, 1},
		{"a removed field", byJSON, weirhttp.Policy{TTL: time.Minute, IgnoreHeaders: []string{"X-Api-Key"}}, []string{"X-Api-Key", "a"}, []string{"X-Api-Key", "b"}, 1},
	} {
		for _, collide := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/collide=%v", tt.name, collide), func(t *testing.T) {
				if collide {
					weirhttp.CollideBodies(t)
				}
				o := reads(tt.rule)
				o.Policy = tt.policy
				s := openSearch(t, o)
				for range 2 {
					for _, fields := range [][]string{tt.a, tt.b} {
						h := http.Header{}
						for i := 0; i < len(fields); i += 2 {
							h.Add(fields[i], fields[i+1])
						}
						for _, name := range tt.policy.IgnoreHeaders {
							h.Del(name)
						}
						s.post(`{"q":1}`, fields...).want(t, 200, s.answerTo("POST", `{"q":1}`, h))
					}
				}
				s.wantCalls(tt.calls)
			})
		}
	}
}

// H32: bodies up to the bound are shared, whether their length is known or not, and
// larger ones are forwarded as they arrive.
func TestH32_Bounds(t *testing.T) {
	rule := byBytes
	rule.MaxBody = 1000
	for _, chunked := range []bool{false, true} {
		for _, size := range []int{0, 1, 999, 1000, 1001, 5000, 300_000} {
			t.Run(fmt.Sprintf("%d/chunked=%v", size, chunked), func(t *testing.T) {
				s := openSearch(t, reads(rule))
				body := strings.Repeat("x", size)
				send := func() reply {
					r, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/search", strings.NewReader(body))
					if err != nil {
						t.Fatal(err)
					}
					if chunked {
						r.Body, r.ContentLength = io.NopCloser(struct{ io.Reader }{r.Body}), -1
					}
					r.Header.Set("Content-Type", "application/json")
					return s.do(r)
				}
				for range 3 {
					send().want(t, 200, s.answerTo("POST", body, http.Header{}))
				}
				want := int64(1)
				if size > 1000 {
					want = 3
				}
				s.wantCalls(want)
			})
		}
	}
}

// H32: a body that is larger than the memory for bodies is forwarded, not shared.
func TestH32_NoMemory(t *testing.T) {
	o := reads(byBytes)
	o.Clients.ReadAheadMemory = 2000
	s := openSearch(t, o)
	for range 2 {
		body := strings.Repeat("x", 10_000)
		s.post(body).want(t, 200, s.answerTo("POST", body, http.Header{}))
		s.post("small").want(t, 200, s.answerTo("POST", "small", http.Header{}))
	}
	s.wantCalls(3)
}

// raw sends text on a connection, and returns the connection and its reader.
func raw(t *testing.T, url, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// H32, H8: requests whose fields say more than "read this" are forwarded alone, and
// invalidate nothing.
func TestH32_FieldsThatPass(t *testing.T) {
	s := openSearch(t, reads(byJSON))
	const head = "POST /search HTTP/1.1\r\nHost: shop.example\r\nContent-Type: application/json\r\nConnection: close\r\n"
	send := func(text string) string {
		_, in := raw(t, s.url, text)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusContinue {
			if resp, err = http.ReadResponse(in, nil); err != nil {
				t.Fatal(err)
			}
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 {
			t.Errorf("%q got %d, %v", text, resp.StatusCode, err)
		}
		return string(body)
	}
	plain := head + "Content-Length: 2\r\n\r\n{}"
	send(plain)
	s.wantCalls(1)
	for i, text := range []string{
		head + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
		head + "Range: bytes=0-1\r\nContent-Length: 2\r\n\r\n{}",
		head + "If-None-Match: \"1\"\r\nContent-Length: 2\r\n\r\n{}",
		head + "If-Match: \"1\"\r\nContent-Length: 2\r\n\r\n{}",
		head + "Accept: text/event-stream\r\nContent-Length: 2\r\n\r\n{}",
		head + "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\n{}\r\n0\r\nX-Sum: 1\r\n\r\n",
	} {
		if got, want := send(text), s.answerTo("POST", "{}", http.Header{}); !strings.HasPrefix(got, want) {
			t.Errorf("%q got %q; want %q", text, got, want)
		}
		s.wantCalls(int64(i + 2))
	}
	send(plain)
	s.wantCalls(7)
	if n := s.handler.Stats().Reads; n.LookedUp != 2 || n.Unshared != 6 {
		t.Errorf("Reads = %+v; want 2 looked up, 6 unshared", n)
	}
}

// H32: a client that waits for 100 (Continue) gets it before its body is read.
func TestH32_ExpectContinue(t *testing.T) {
	s := openSearch(t, reads(byJSON))
	conn, in := raw(t, s.url, "POST /search HTTP/1.1\r\nHost: shop.example\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusContinue {
		t.Fatalf("got %v, %v; want 100", resp, err)
	}
	_, _ = io.WriteString(conn, "{}")
	if resp, err = http.ReadResponse(in, nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("got %v, %v; want 200", resp, err)
	}
}

// H32: a client that leaves in the middle of its body starts no call, and affects no
// other client with the same body.
func TestH32_LeavesMidBody(t *testing.T) {
	s := openSearch(t, reads(byJSON))
	const head = "POST /search HTTP/1.1\r\nHost: shop.example\r\nContent-Type: application/json\r\n"
	for _, begun := range []string{"Content-Length: 9\r\n\r\n{\"q\":", "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"q\":\r\n"} {
		before := s.handler.Stats().Ended()
		conn, _ := raw(t, s.url, head+begun)
		eventually(t, "the body is being read", func() bool { return s.handler.HeldBodies() > 0 })
		conn.Close()
		eventually(t, "the request ends", func() bool { return s.handler.Stats().Ended() == before+1 })
		s.wantCalls(0)
	}
	s.post(`{"q":1}`).want(t, 200, s.answerTo("POST", `{"q":1}`, http.Header{}))
}

// H32, H24: a client that sends its body too slowly is cut off, and holds no permit.
func TestH32_SlowBody(t *testing.T) {
	o := reads(byJSON)
	o.Clients = weirhttp.ClientLimits{Grace: 50 * time.Millisecond}
	s := openSearch(t, o)
	_, in := raw(t, s.url, "POST /search HTTP/1.1\r\nHost: shop.example\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{")
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("got %v, %v; want 408", resp, err)
	}
	s.wantCalls(0)
}

// H32, H6: the call goes on, with its body, when the client that started it leaves.
func TestH32_LeaderLeaves(t *testing.T) {
	s := openSearch(t, reads(byJSON))
	s.slow.Store(int64(300 * time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", s.url+"/search", strings.NewReader(`{"q":1}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	left := make(chan error)
	go func() {
		_, err := http.DefaultClient.Do(r)
		left <- err
	}()
	eventually(t, "the call runs", func() bool { return s.calls.Load() == 1 })
	second := make(chan reply)
	go func() { second <- s.post(`{"q" : 1}`) }()
	eventually(t, "the second waits", func() bool { return s.handler.Stats().Waiting == 1 })
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the first got %v; want canceled", err)
	}
	(<-second).want(t, 200, s.answerTo("POST", `{"q":1}`, http.Header{}))
	s.wantCalls(1)
}

// H32: a GET, a HEAD, a POST and a QUERY of one URL never share.
func TestH32_Methods(t *testing.T) {
	rule := byBytes
	rule.Methods = []string{"POST", "QUERY", "REPORT", "GET"}
	s := openSearch(t, reads(rule))
	for range 2 {
		for _, method := range []string{"POST", "QUERY", "REPORT", "GET"} {
			s.send(method, "{}").want(t, 200, s.answerTo(method, "{}", http.Header{}))
		}
		r, _ := http.NewRequestWithContext(t.Context(), "GET", s.url+"/search", nil)
		s.do(r).want(t, 200, s.answerTo("GET", "", http.Header{}))
		r, _ = http.NewRequestWithContext(t.Context(), "HEAD", s.url+"/search", nil)
		s.do(r).want(t, 200, "")
	}
	s.wantCalls(5) // the HEAD has the response to the GET
}

// H32: QUERY is a read without a rule, POST is not; and only a method and a type that
// a rule names are.
func TestH32_Declared(t *testing.T) {
	for _, tt := range []struct {
		name, method, kind string
		rules              []weirhttp.ReadRule
		shared             bool
	}{
		{"QUERY without a rule", "QUERY", "application/sql", nil, true},
		{"QUERY without a type", "QUERY", "", nil, true},
		{"POST without a rule", "POST", "application/json", nil, false},
		{"POST", "POST", "application/json", []weirhttp.ReadRule{byBytes}, true},
		{"a form", "POST", "application/x-www-form-urlencoded", []weirhttp.ReadRule{byBytes}, false},
		{"no type", "POST", "", []weirhttp.ReadRule{byBytes}, false},
		{"a type that begins alike", "POST", "application/json-patch+json", []weirhttp.ReadRule{byBytes}, false},
		{"two types in one", "POST", "application/json, text/html", []weirhttp.ReadRule{byBytes}, false},
		{"PUT", "PUT", "application/json", []weirhttp.ReadRule{byBytes}, false},
		{"post", "post", "application/json", []weirhttp.ReadRule{byBytes}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openSearch(t, reads(tt.rules...))
			r, _ := http.NewRequestWithContext(t.Context(), "GET", s.url+"/search", nil)
			s.do(r)
			for range 2 {
				s.send(tt.method, "{}", "Content-Type", tt.kind).want(t, 200, s.answerTo(tt.method, "{}", http.Header{}))
			}
			s.do(r)
			want := int64(2)
			if !tt.shared {
				want = 4 // it also invalidates the GET
			}
			s.wantCalls(want)
		})
	}
}

// H32: a read invalidates nothing, even if it is not shared; a request that may change
// something invalidates the responses to all bodies.
func TestH32_Invalidates(t *testing.T) {
	rule := byJSON
	rule.MaxBody, rule.Only = 100, []weirhttp.ReadCondition{{Field: "/t", Values: []string{"0"}, Absent: true}}
	s := openSearch(t, reads(rule))
	get, _ := http.NewRequestWithContext(t.Context(), "GET", s.url+"/search", nil)
	all := func() {
		s.do(get)
		s.post(`{"q":1}`)
		s.post(`{"q":2}`)
	}
	all()
	s.wantCalls(3)
	s.post(`{"t":1}`)                    // the condition does not hold
	s.post(strings.Repeat("x", 200))     // too large
	s.post(`{"q":1}`, "If-Match", `"1"`) // a condition
	all()
	s.wantCalls(6)
	s.send("PUT", "{}")
	all()
	s.wantCalls(10)
	s.post("a=b", "Content-Type", "text/plain")
	all()
	s.wantCalls(14)
	s.post("{}", "X-HTTP-Method-Override", "DELETE")
	all()
	s.wantCalls(18)
}

// H32: a condition is about a value by meaning, and may allow that there is none.
func TestH32_Conditions(t *testing.T) {
	rule := byJSON
	rule.Only = []weirhttp.ReadCondition{
		{Field: "/temperature", Values: []string{"0", `"none"`}, Absent: true}, {Field: "/stream", Values: []string{"false"}, Absent: true},
		{Field: "/model", Values: []string{`"é"`}},
	}
	for body, shared := range map[string]bool{
		`{"model":"é"}`: true, `{"model":"\u00e9","temperature":0.0}`: true, `{"model":"é","temperature":-0e7,"stream":false}`: true,
		`{"model":"é","temperature":"none"}`: true,
		`{"model":"é","temperature":0.1}`:    false, `{"model":"é","temperature":"0"}`: false, `{"model":"é","temperature":null}`: false,
		`{"model":"é","stream":true}`: false, `{}`: false, `{"model":"e"}`: false, `[]`: false, `{"model":"é"`: false, `{"model":"é","temperature":1e-400}`: false,
		`{"model":"é","seed":12345678901234567890}`:     true,
		`{"model":"é","temperature":0,"temperature":1}`: false, `{"x":{"model":"é"}}`: false,
	} {
		s := openSearch(t, reads(rule))
		for range 2 {
			s.post(body).want(t, 200, s.answerTo("POST", body, http.Header{}))
		}
		s.wantCalls(map[bool]int64{true: 1, false: 2}[shared])
		if t.Failed() {
			t.Fatalf("with %s", body)
		}
	}
}

// H32: only-if-cached never causes a call, even of a read that cannot be stored.
func TestH32_OnlyIfCached(t *testing.T) {
	rule := byJSON
	rule.MaxBody, rule.Only = 100, []weirhttp.ReadCondition{{Field: "/t", Values: []string{"0"}, Absent: true}}
	s := openSearch(t, reads(rule))
	for _, body := range []string{`{"q":1}`, `{"t":1}`, strings.Repeat("x", 200)} {
		if r := s.post(body, "Cache-Control", "only-if-cached"); r.status != http.StatusGatewayTimeout {
			t.Errorf("%s got %d; want 504", body, r.status)
		}
	}
	for _, field := range []string{"Range", "X-Http-Method-Override", "If-Match"} {
		if r := s.post(`{"q":1}`, "Cache-Control", "only-if-cached", field, "x"); r.status != http.StatusGatewayTimeout {
			t.Errorf("with %s: %d; want 504", field, r.status)
		}
	}
	s.wantCalls(0)
}

// H32: GraphQL queries are shared, and a mutation is not a read.
func TestH32_GraphQL(t *testing.T) {
	rule := byJSON
	rule.GraphQL = true
	s := openSearch(t, reads(rule))
	const query, mutation = `{"query":"query Q { a }","variables":{"x":1}}`, `{"query":"mutation { a }"}`
	s.post(query)
	s.post(`{"variables":{"x":1.0},"query":"query Q { a }"}`)
	s.wantCalls(1)
	for i, body := range []string{
		mutation, `{"query":"query Q { a } mutation M { b }","operationName":"M"}`, `[{"query":"{ a }"}]`, `{"id":"x"}`,
		`{"query":"{ a }","query":"mutation { a }"}`, `{"query":"{ a }","Query":"mutation { a }"}`, `{"query":1}`, `not JSON`,
	} {
		s.post(query)
		s.post(body)
		s.post(body)
		if want := int64(3*i + 3); s.calls.Load() != want {
			t.Fatalf("after %s: %d calls; want %d", body, s.calls.Load(), want)
		}
		s.post(query) // which every other request has invalidated
	}
}

// H32: a server may prefer the document in the URL to that in the body.
func TestH32_GraphQLInTheURL(t *testing.T) {
	rule := byJSON
	rule.GraphQL = true
	s := openSearch(t, reads(rule))
	for url, shared := range map[string]bool{
		"?operation=query": true, "?subquery=1": true, "?query=mutation{a}": false, "?x=1&qu%65ry=mutation{a}": false,
		"?x=1;query=m": false, "?Query=m": false, "?query[]=m": false, "?+query=m": false, "?query": false,
	} {
		before := s.calls.Load()
		for range 2 {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/search"+url, strings.NewReader(`{"query":"{ a }"}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			s.do(r)
		}
		if got := s.calls.Load()-before == 1; got != shared {
			t.Errorf("%s: shared is %v; want %v", url, got, shared)
		}
	}
}

// H32: a mutation keeps the fields that the policy removes from reads.
func TestH32_MutationsAreForwardedUnchanged(t *testing.T) {
	rule := byJSON
	rule.GraphQL = true
	o := reads(rule)
	o.Policy.IgnoreHeaders = []string{"Authorization"}
	s := openSearch(t, o)
	for body, want := range map[string]string{`{"query":"{ a }"}`: "", `{"query":"mutation { a }"}`: "Bearer a"} {
		s.post(body, "Authorization", "Bearer a").want(t, 200, s.answerTo("POST", body, http.Header{"Authorization": {want}}))
	}
}

// H32: rules are checked, all faults at once.
func TestH32_RulesAreValidated(t *testing.T) {
	_, err := weirhttp.New(http.NotFoundHandler(), reads(
		byJSON,
		weirhttp.ReadRule{},
		weirhttp.ReadRule{Methods: []string{"PUT", "post"}, Types: []string{"Application/JSON", "text", "a/b; c=d"}, Ignore: []string{"/a"}, GraphQL: true, MaxBody: 17 << 20},
		weirhttp.ReadRule{
			Methods: []string{"QUERY"}, Compare: weirhttp.CompareJSON, Ignore: []string{"a", ""},
			Only: []weirhttp.ReadCondition{{Field: "x", Values: []string{"{"}}, {Field: "/a"}, {Field: "/a", Absent: true}},
		},
		weirhttp.ReadRule{Methods: []string{"POST"}, Types: []string{"a/b"}, Compare: 7},
	))
	got := fmt.Sprint(err)
	for _, field := range []string{
		"Reads[1].Methods", "Reads[2].Methods", "Reads[2].Types", "Reads[2].Ignore", "Reads[2].GraphQL", "Reads[2].MaxBody",
		"Reads[3].Ignore", "Reads[3].Only[0].Field", "Reads[3].Only[0].Values", "Reads[3].Only[1].Values", "Reads[3].Only[2].Field",
		"Reads[4].Compare",
	} {
		if !strings.Contains(got, field) {
			t.Errorf("no fault of %s in:\n%s", field, got)
		}
	}
	if !errors.As(err, new(*option.Error)) {
		t.Errorf("the error is a %T; want *option.Error", err)
	}
}
