package weirhttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// A pair is two bodies, and whether the response to the first is for the second.
type pair struct {
	name   string
	rule   weirhttp.ReadRule
	a, b   string
	shared bool
}

var ignoring = weirhttp.ReadRule{
	Methods: []string{"POST"}, Types: []string{"application/json"}, Compare: weirhttp.CompareJSON,
	Ignore: []string{"/user", "/metadata/trace"},
}

var pairs = []pair{
	{"the same", byBytes, `{"q":"x"}`, `{"q":"x"}`, true},
	{"no body", byBytes, ``, ``, true},
	{"one byte", byBytes, `{"q":"x"}`, `{"q":"y"}`, false},
	{"one byte, JSON", byJSON, `{"q":"x"}`, `{"q":"y"}`, false},
	{"a byte more", byBytes, `{"q":"x"}`, `{"q":"x"} `, false},
	{"order by bytes", byBytes, `{"a":1,"b":2}`, `{"b":2,"a":1}`, false},
	{"order by meaning", byJSON, `{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
	{"order of a list", byJSON, `[1,2]`, `[2,1]`, false},
	{"blanks by bytes", byBytes, `{"a":1}`, `{"a": 1}`, false},
	{"blanks by meaning", byJSON, `{"a":1}`, " {\r\n\t\"a\" : 1 } ", true},
	{"blanks in a string", byJSON, `{"a":"x y"}`, `{"a":"x  y"}`, false},
	{"number 1.0", byJSON, `{"n":1}`, `{"n":1.0}`, true},
	{"number 1e0", byJSON, `{"n":1}`, `{"n":1e0}`, true},
	{"number as a string", byJSON, `{"n":1}`, `{"n":"1"}`, false},
	{"a number a little larger", byJSON, `{"n":0.1}`, `{"n":0.10000000000000000001}`, false},
	{"a large number", byJSON, `{"n":9007199254740992}`, `{"n":9007199254740993}`, false},
	{"a number out of range", byJSON, `{"n":1e400}`, `{"n":1e401}`, false},
	{"composed and decomposed", byJSON, "{\"q\":\"\u00e9\"}", "{\"q\":\"e\u0301\"}", false},
	{"an escape", byJSON, "{\"q\":\"\u00e9\"}", `{"q":"\u00e9"}`, true},
	{"an escaped name", byJSON, `{"q":1}`, `{"\u0071":1}`, true},
	{"an ignored field", ignoring, `{"q":1,"user":"a"}`, `{"q":1,"user":"b"}`, true},
	{"without the ignored field", ignoring, `{"q":1,"user":"a"}`, `{"q":1}`, true},
	{"a field of the same name deeper down", ignoring, `{"q":{"user":"a"}}`, `{"q":{"user":"b"}}`, false},
	{"an ignored field in another", ignoring, `{"metadata":{"trace":1,"v":2}}`, `{"metadata":{"v":2,"trace":3}}`, true},
	{"beside an ignored field", ignoring, `{"metadata":{"trace":1,"v":2}}`, `{"metadata":{"trace":1,"v":3}}`, false},
	{"an ignored field of a body without a form", ignoring, `{"q":1,"q":1,"user":"a"}`, `{"q":1,"q":1,"user":"b"}`, false},
	{"a name twice", byJSON, `{"a":1,"a":2}`, `{"a":2}`, false},
	{"a name twice, first", byJSON, `{"a":1,"a":2}`, `{"a":1}`, false},
	{"a name twice, the same bytes", byJSON, `{"a":1,"a":2}`, `{"a":1,"a":2}`, true},
	{"half a surrogate pair", byJSON, `{"a":"\ud800"}`, `{"a":"\ud801"}`, false},
	{"half a surrogate pair and the replacement", byJSON, `{"a":"\ud800"}`, `{"a":"\ufffd"}`, false},
	{"not UTF-8", byJSON, "{\"a\":\"\xff\"}", "{\"a\":\"\xfe\"}", false},
	{"not UTF-8 and the replacement", byJSON, "{\"a\":\"\xff\"}", "{\"a\":\"\ufffd\"}", false},
	{"nested too deeply", byJSON, strings.Repeat("[", 500) + "1" + strings.Repeat("]", 500), strings.Repeat("[", 500) + "1 " + strings.Repeat("]", 500), false},
	{"not JSON", byJSON, `{"a":1,}`, `{"a":1 ,}`, false},
	// The form of the first is the bytes of the second, which has no form itself.
	{"a form and bytes", byJSON, `{"n" : 0.1}`, `{"n":0.1,}`, false},
	{"null and absent", byJSON, `{"a":null}`, `{}`, false},
	{"quotation marks", byJSON, `{"a":"b","c":"d"}`, `{"a":"b\",\"c\":\"d"}`, false},
}

// H32: two requests share if and only if their bodies mean the same: one after the
// other, and at once.
func TestH32_BodiesThatDiffer(t *testing.T) {
	for _, collide := range []bool{false, true} {
		for _, p := range pairs {
			t.Run(fmt.Sprintf("%s/collide=%v", p.name, collide), func(t *testing.T) {
				if collide {
					weirhttp.CollideBodies(t)
				}
				p.stored(t)
				p.together(t)
			})
		}
	}
}

// stored sends the bodies in turn: what is stored for one is served for the other only
// if they share.
func (p pair) stored(t *testing.T) {
	s := openSearch(t, reads(p.rule))
	first := s.answerTo("POST", p.a, http.Header{})
	second := first
	calls := int64(1)
	if !p.shared {
		second, calls = s.answerTo("POST", p.b, http.Header{}), 2
	}
	for range 2 {
		s.post(p.a).want(t, 200, first)
		s.post(p.b).want(t, 200, second)
	}
	s.wantCalls(calls)
}

// together sends them at once.
func (p pair) together(t *testing.T) {
	s := openSearch(t, reads(p.rule))
	s.slow.Store(int64(50 * time.Millisecond))
	replies := make(chan func(), 8)
	for i := range 8 {
		go func() {
			body := p.a
			if i%2 == 1 {
				body = p.b
			}
			r := s.post(body)
			replies <- func() {
				own, other := s.answerTo("POST", body, http.Header{}), s.answerTo("POST", p.a, http.Header{})
				if i%2 == 0 {
					other = s.answerTo("POST", p.b, http.Header{})
				}
				if r.body != own && !(p.shared && r.body == other) {
					t.Errorf("%q got %d %s, %v", body, r.status, r.body, r.err)
				}
			}
		}()
	}
	for range 8 {
		(<-replies)()
	}
	want := int64(2)
	if p.shared {
		want = 1
	}
	s.wantCalls(want)
}

// H32, H17: the origin gets the bytes of the request that makes the call, with the
// fields that are ignored.
func TestH32_OriginGetsTheBytes(t *testing.T) {
	s := openSearch(t, reads(ignoring))
	const body = " {\"user\" : \"a\",\t\"n\":1.0, \"q\":\"\\u00e9\"}\n"
	s.post(body)
	s.post(`{"q":"é","n":1}`).want(t, 200, s.answerTo("POST", body, http.Header{}))
	if len(s.got) != 1 || s.got[0] != body {
		t.Errorf("the origin got %q; want %q", s.got, body)
	}
}

// H32: the fields that describe a body are part of its key.
func TestH32_FieldsOfTheBody(t *testing.T) {
	const body = `{"q":1}`
	for _, tt := range []struct {
		name   string
		rule   weirhttp.ReadRule
		a, b   []string
		shared bool
	}{
		{"charset", byBytes, nil, []string{"Content-Type", "application/json; charset=utf-8"}, false},
		{"charset, by meaning", byJSON, nil, []string{"Content-Type", "Application/JSON;charset=\"UTF-8\""}, true},
		{"another charset", byJSON, nil, []string{"Content-Type", "application/json; charset=latin1"}, false},
		{"a parameter", byJSON, nil, []string{"Content-Type", "application/json; version=2"}, false},
		{"Content-Encoding", byJSON, nil, []string{"Content-Encoding", "gzip"}, false},
		{"two encodings", byJSON, []string{"Content-Encoding", "gzip", "Content-Encoding", "br"}, []string{"Content-Encoding", "gzip, br"}, false},
		{"Content-Language", byJSON, []string{"Content-Language", "de"}, []string{"Content-Language", "fr"}, false},
		{"the same fields", byJSON, []string{"Content-Language", "de"}, []string{"Content-Language", "de"}, true},
		{"User-Agent", byJSON, []string{"User-Agent", "a"}, []string{"User-Agent", "b"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openSearch(t, reads(tt.rule))
			s.post(body, tt.a...)
			s.post(body, tt.b...)
			s.wantCalls(map[bool]int64{true: 1, false: 2}[tt.shared])
		})
	}
}
