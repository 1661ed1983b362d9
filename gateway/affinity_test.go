package gateway_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/weir-go/weir/gateway"
)

// Requests with one key go to one server, whatever else differs; keys are spread.
func TestH39_EachPartOfAKey(t *testing.T) {
	prompt := strings.Repeat("x", 1500)
	for _, row := range []struct {
		by      string
		request func(p *pool, key, other int) *http.Request
	}{
		{"path", func(p *pool, key, other int) *http.Request {
			return p.request("GET", fmt.Sprintf("/k%d?o=%d", key, other), nil)
		}},
		{"query:k", func(p *pool, key, other int) *http.Request {
			return p.request("GET", fmt.Sprintf("/%d?o=%d&%%6b=k%d&k=%d", other, other, key, other), nil)
		}},
		{"header:x-key", func(p *pool, key, other int) *http.Request {
			r := p.request("GET", fmt.Sprintf("/%d", other), nil)
			r.Header.Set("X-Key", fmt.Sprint("k", key))
			return r
		}},
		{"client", func(p *pool, key, other int) *http.Request {
			r := p.request("GET", fmt.Sprintf("/%d", other), nil)
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("192.0.2.%d", key+1))
			return r
		}},
		{"body:/messages/0", func(p *pool, key, other int) *http.Request {
			body := fmt.Sprintf(`{"other":%d,"messages":[{"content":"k%d %s %d"}]}`, other, key, prompt, other)
			return p.request("POST", fmt.Sprintf("/%d", other), strings.NewReader(body))
		}},
	} {
		p := newPool(t, func(c *gateway.Config) {
			c.Upstreams[0].Affinity = &gateway.Affinity{By: []string{row.by}}
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
		})
		homes := [4]int{}
		for key := range 64 {
			failed, calls := p.send(1, 4, func(i int) *http.Request { return row.request(p, key, i) })
			home := -1
			for i, n := range calls {
				if n == 4 {
					home = i
				}
			}
			if failed > 0 || home < 0 {
				t.Fatalf("%s: %d of 4 requests with key %d failed, the servers got %v; want 4 at one of them", row.by, failed, key, calls)
			}
			homes[home]++
		}
		for i, n := range homes {
			if n == 0 {
				t.Errorf("%s: server %d has none of 64 keys: %v", row.by, i, homes)
			}
		}
		kept, moved := uint64(0), uint64(0)
		for _, s := range p.g.Stats().Upstreams["main"].Servers {
			kept, moved = kept+s.Kept, moved+s.Moved
		}
		if kept != 256 || moved != 0 {
			t.Errorf("%s: Stats has %d calls kept and %d moved; want 256 and none", row.by, kept, moved)
		}
	}
}

// Requests without any part of the key go to any server.
func TestH39_WithoutAKeyAnyServerWillDo(t *testing.T) {
	p := newPool(t, func(c *gateway.Config) {
		c.Upstreams[0].Affinity = &gateway.Affinity{By: []string{"query:k", "header:X-Key", "body:/k"}}
	})
	_, calls := p.send(4, 400, p.gets)
	for i, n := range calls {
		if n < 50 {
			t.Errorf("server %d has %d of 400 calls without a key: %v", i, n, calls)
		}
	}
}

// A key has its server again after a reload.
func TestH39_AReloadMovesNoKeys(t *testing.T) {
	var c gateway.Config
	p := newPool(t, func(own *gateway.Config) {
		own.Upstreams[0].Affinity = &gateway.Affinity{By: []string{"path"}, Bound: -1}
		c = *own
	})
	one := func(int) *http.Request { return p.request("GET", "/one", nil) }
	_, before := p.send(20, 100, one)
	c.Upstreams = append([]gateway.Upstream(nil), c.Upstreams...)
	c.Upstreams[0].Affinity = &gateway.Affinity{By: []string{"path"}, Bound: 2}
	if err := p.g.Update(c); err != nil {
		t.Fatal(err)
	}
	if _, after := p.send(1, 100, one); after != before {
		t.Errorf("the servers had %v of one key's calls, and %v after a reload; want all at one", before, after)
	}
}

func TestH39_SettingsAreChecked(t *testing.T) {
	for name, a := range map[string]gateway.Affinity{
		"Upstreams[0].Affinity.By":     {},
		"Upstreams[0].Affinity.By[0]":  {By: []string{"cookie:x"}},
		"Upstreams[0].Affinity.By[1]":  {By: []string{"path", "path"}},
		"Upstreams[0].Affinity.By[2]":  {By: []string{"path", "query:k", "body:k"}},
		"Upstreams[0].Affinity.Bound":  {By: []string{"path"}, Bound: 1},
		"Upstreams[0].Affinity.Prefix": {By: []string{"path"}, Prefix: 1 << 20},
	} {
		c := config(gateway.Upstream{Name: "main", Servers: []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}, Affinity: &a})
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name+" ") && !strings.Contains(err.Error(), name+":") {
			t.Errorf("Validate = %v; want a fault of %s", err, name)
		}
	}
}
