package weirhttp_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// H22: a Handler says why requests share no response, by reason, and by the fields that keep
// them apart.
func TestH22_AHandlerSaysWhyNothingIsShared(t *testing.T) {
	strict := weirhttp.Options{Policy: weirhttp.Policy{TTL: time.Minute}}
	for name, tt := range map[string]struct {
		o      weirhttp.Options
		fields []string // of the response
		first  []string // of the requests
		second []string
		want   map[string]uint64
		names  map[string]uint64
	}{
		"shared":            {strict, nil, nil, nil, nil, nil},
		"an unknown field":  {strict, nil, []string{"X-Acme", "1"}, []string{"X-Acme", "2"}, map[string]uint64{"apart": 1}, map[string]uint64{"X-Acme": 1}},
		"private":           {weirhttp.Options{}, []string{"Cache-Control", "private"}, nil, nil, map[string]uint64{"private": 2}, nil},
		"no lifetime":       {weirhttp.Options{}, nil, nil, nil, map[string]uint64{"no-freshness": 2}, nil},
		"a cookie":          {weirhttp.Options{}, []string{"Cache-Control", "max-age=60"}, []string{"Cookie", "a=1"}, []string{"Cookie", "a=1"}, map[string]uint64{"cookie": 2}, nil},
		"other credentials": {weirhttp.Options{}, []string{"Cache-Control", "max-age=60"}, nil, []string{"Authorization", "Bearer b"}, map[string]uint64{"credentials": 1}, nil},
		"a reload":          {strict, nil, nil, []string{"Cache-Control", "no-cache"}, map[string]uint64{"request": 1}, nil},
		"an override":       {strict, nil, []string{"X-Original-Url", "/b"}, nil, map[string]uint64{"override": 1}, nil},
		"rows":              {strict, nil, []string{"Range", "rows=0-4"}, nil, map[string]uint64{"other-form": 1}, nil},
		"Vary: *":           {strict, []string{"Vary", "*"}, nil, nil, map[string]uint64{"vary": 2}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, h1, tt.o, answering(0, tt.fields...))
				for _, fields := range [][]string{tt.first, tt.second} {
					s.do(s.request(t.Context(), "GET", "/a", fields...))
				}
				got := s.handler.Alone()
				if !maps.Equal(got.Reasons, tt.want) || !maps.Equal(got.Fields, tt.names) || len(got.Pairs) != 0 {
					t.Errorf("Alone = %+v; want reasons %v, fields %v", got, tt.want, tt.names)
				}
			})
		})
	}
}

// Clients make names up: their table is bounded.
func TestH22_NamesOfFieldsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{Policy: weirhttp.Policy{TTL: time.Minute}}, answering(0))
		s.get("/a")
		for i := range 100 {
			s.do(s.request(t.Context(), "GET", "/a", fmt.Sprintf("X-Made-Up-%d", i), "1"))
		}
		fields := s.handler.Alone().Fields
		if len(fields) != weirhttp.MaxAloneFields+1 || fields[weirhttp.OtherFields] != 100-weirhttp.MaxAloneFields {
			t.Errorf("fields = %v; want %d names, and the rest as %s", fields, weirhttp.MaxAloneFields, weirhttp.OtherFields)
		}
	})
}

// H22: observe mode has the evidence: it compares the responses to requests that differ in
// one field alone.
func TestH22_ObserveComparesRequestsThatDifferInOneField(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := weirhttp.Options{Observe: true, Policy: weirhttp.Policy{TTL: time.Minute}}
		s := open(t, h1, o, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "for "+r.Header.Get("X-Tenant"))
		})
		ask := func(fields ...string) { s.do(s.request(t.Context(), "GET", "/a", fields...)) }
		ask("X-Acme-Correlation", "1", "X-Tenant", "a")
		ask("X-Acme-Correlation", "2", "X-Tenant", "a")
		ask("X-Acme-Correlation", "2", "X-Tenant", "b")
		ask("X-Acme-Correlation", "3", "X-Tenant", "c") // in two: no evidence
		got := s.handler.Alone()
		want := map[string]weirhttp.PairStats{"X-Acme-Correlation": {Same: 1}, "X-Tenant": {Differed: 1}}
		if !maps.Equal(got.Pairs, want) || got.Reasons["apart"] != 3 {
			t.Errorf("Alone = %+v; want pairs %v, and three requests apart", got, want)
		}
	})
}
