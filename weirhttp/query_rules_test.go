package weirhttp

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/rfc9111"
)

func TestH9_QueryRules(t *testing.T) {
	for _, e := range []struct {
		rules    QueryRules
		in, want string
	}{
		{QueryRules{Keep: []string{"q", "page"}}, "utm_source=x&q=a+b&page=2&Q=3", "q=a+b&page=2"},
		{QueryRules{Keep: []string{"q"}}, "q=1&q=2&x=3&q", "q=1&q=2&q"},
		{QueryRules{Keep: []string{"q"}}, "q[]=1&q%5B%5D=2&q.x=3&qq=4", ""},
		{QueryRules{Keep: []string{"q[]"}}, "q[]=1&q%5B%5D=2&q%5b]=3", "q[]=1&q%5B%5D=2&q%5b]=3"},
		{QueryRules{Drop: []string{"utm_*", "gclid"}}, "utm_source=x&a=1&gclid=2&utm_=3&utm=4&GCLID=5", "a=1&utm=4&GCLID=5"},
		{QueryRules{Drop: []string{"utm_*"}}, "%75tm_source=x&ut%6D_a&a=1", "a=1"},
		{QueryRules{Drop: []string{"utm_*"}}, "a=1;utm_x=2&utm_y=1;a=evil", "a=1;utm_x=2"},
		{QueryRules{Drop: []string{"a b"}}, "a+b=1&a%20b=2&a%2Bb=3", "a%2Bb=3"},
		{QueryRules{Drop: []string{"x"}}, "a=%zz&%zz=1&x=%zz&%2", "a=%zz&%zz=1&%2"},
		{QueryRules{Drop: []string{"%zz"}}, "a=1&%zz=1", "a=1"},
		{QueryRules{Drop: []string{"x"}}, "&&a=1&&=b&=&", "&&a=1&&=b&=&"},
		{QueryRules{Keep: []string{"a"}}, "&&a=1&&=b&=&", "a=1"},
		{QueryRules{Drop: []string{"*"}}, "a=1&b", ""},
		{QueryRules{Keep: []string{"a*"}, Drop: []string{"ab"}}, "a=1&ab=2&abc=3&b=4", "a=1&abc=3"},
		{QueryRules{Sort: true}, "b=1&a=2&b=0&a=1", "a=2&a=1&b=1&b=0"},
		{QueryRules{Sort: true}, "a=2&a=1&b=1", "a=2&a=1&b=1"},
		{QueryRules{Sort: true}, "b&%61=1&A=2&&c", "&%61=1&A=2&b&c"},
		{QueryRules{Sort: true}, "z=1&a[]=2&a=1&a[x]=0&a%5B%5D=3", "a[]=2&a=1&a[x]=0&a%5B%5D=3&z=1"},
		{QueryRules{Sort: true}, "c&b.c=2&b_c=1&b+c=0&b%20C=3&b[c=4&a", "a&b.c=2&b_c=1&b+c=0&b%20C=3&b[c=4&c"},
		{QueryRules{Sort: true}, "b&+a=2&a=1&a%00x=0", "+a=2&a=1&a%00x=0&b"},
		{QueryRules{Sort: true}, "b=1&a=2;b=3", "b=1&a=2;b=3"},
		{QueryRules{Sort: true}, "b=1&a=2%3Bb=3", "a=2%3Bb=3&b=1"},
		{QueryRules{Sort: true, Drop: []string{"x"}}, "b=1&a=2&x=;", "a=2&b=1"},
		{QueryRules{Drop: []string{"utm_*"}}, "utm_a=1;b=2&%2575tm_b&utm%5fa", "%2575tm_b"},
		{QueryRules{Drop: []string{"a"}}, "a+=1&a%20=2&+a=3&a=4", "a+=1&a%20=2&+a=3"},
		{QueryRules{Keep: []string{"a"}}, "a&a=&a==&b=a", "a&a=&a=="},
		{QueryRules{Sort: true, Drop: []string{"x"}}, "x", ""},
		{QueryRules{Drop: []string{"a"}}, "a=b=c&b=a=c", "b=a=c"},
		{QueryRules{Drop: []string{"a"}}, "?a=1&a=1", "?a=1"},
	} {
		want := "/p?" + e.want
		if e.want == "" {
			want = "/p"
		}
		if got := e.rules.compile().target("/p?" + e.in); got != want {
			t.Errorf("%+v of %q = %q; want %q", e.rules, e.in, got, want)
		}
	}
	long := strings.Repeat("b&a&", MaxSortedParameters/2)
	if got := (QueryRules{Sort: true}).compile().target("/p?" + long); got != "/p?"+long {
		t.Errorf("a query of %d parameters is sorted", MaxSortedParameters+1)
	}
	if got, want := (QueryRules{Sort: true}).compile().target("/p?"+long[:len(long)-3]), "/p?"+strings.Repeat("a&", MaxSortedParameters/2-1)+strings.Repeat("b&", MaxSortedParameters/2); got != want[:len(want)-1] {
		t.Errorf("a query of %d parameters is not sorted", MaxSortedParameters-1)
	}
	if (QueryRules{}).compile() != nil {
		t.Error("no rules change something")
	}
}

// A query that the rules leave alone costs nothing, and no request is changed in place.
func TestH9_QueryRulesChangeNoRequestInPlace(t *testing.T) {
	q := QueryRules{Drop: []string{"utm_*"}, Sort: true}.compile()
	r := httptest.NewRequest("GET", "/a%2fb//c?a=1&b=%zz&b=2", nil)
	if n := testing.AllocsPerRun(100, func() {
		if q.applyTo(r) != r {
			t.Error("a query in order is changed")
		}
	}); n != 0 {
		t.Errorf("%v allocations; want 0", n)
	}
	r = httptest.NewRequest("GET", "/a%2fb//c;d?b=2&utm_x=1&a=1", nil)
	own := q.applyTo(r)
	if own.RequestURI != "/a%2fb//c;d?a=1&b=2" || own.URL.RawQuery != "a=1&b=2" || r.URL.RawQuery != "b=2&utm_x=1&a=1" || r.RequestURI != "/a%2fb//c;d?b=2&utm_x=1&a=1" {
		t.Errorf("applyTo = %q, %q; the request is %q, %q now", own.RequestURI, own.URL.RawQuery, r.RequestURI, r.URL.RawQuery)
	}
}

// forwarded returns what h makes of a request for /p with that query: the key, and the
// target as it is forwarded.
func forwarded(t *testing.T, h *Handler, query string) (key, target string) {
	r := httptest.NewRequest("GET", "/p", nil)
	r.RequestURI += "?" + query
	r.URL.RawQuery, r.URL.ForceQuery = query, query == ""
	own, _, _ := h.read(r)
	if r.URL.RawQuery != query || r.RequestURI != "/p?"+query {
		t.Errorf("the client's request is changed to %q, %q", r.URL.RawQuery, r.RequestURI)
	}
	if path, sent, _ := strings.Cut(own.RequestURI, "?"); path != "/p" || sent != own.URL.RawQuery {
		t.Errorf("%q is forwarded as %q and as %q", query, sent, own.URL.RawQuery)
	}
	return h.key(own).Target, own.RequestURI
}

// The key is what is forwarded, so equal keys are equal requests (H9). What is forwarded
// consists of what the client sent, with the values of each name in its order, and
// applying rules again changes nothing.
func FuzzQueryRules(f *testing.F) {
	f.Add("a=1&b=2", "b=2&a=1", "a", "utm_*", true)
	f.Add("%zz&;=&&", "%zz&;=&", "*", "x", false)
	f.Add("%+&+%2&%zz%41=%", "a", "%", "", true)
	f.Add("b&a[]=1&A=2&utm_x", "a[]=1&A=2&b", "", "utm_*", true)
	f.Add("a=1;b&c", "c&a=1;b", "", "a", true)
	f.Fuzz(func(t *testing.T, query, other, keep, drop string, sorts bool) {
		rules := QueryRules{Sort: sorts}
		if keep != "" {
			rules.Keep = []string{keep}
		}
		if drop != "" {
			rules.Drop = []string{drop}
		}
		h, err := New(http.NotFoundHandler(), Options{Query: rules})
		if err != nil {
			t.Skip()
		}
		key, target := forwarded(t, h, query)
		otherKey, otherTarget := forwarded(t, h, other)
		if key != target || otherKey != otherTarget {
			t.Errorf("keys %q, %q for requests forwarded as %q, %q", key, otherKey, target, otherTarget)
		}
		if got := h.Target("/p?" + query); got != key {
			t.Errorf("Target = %q; the key is %q", got, key)
		}
		_, once, asked := strings.Cut(target, "?")
		if again, _ := forwarded(t, h, once); asked && again != key {
			t.Errorf("%q becomes %q, and that becomes %q", query, key, again)
		}
		if h.query != nil {
			if left, _ := h.query.apply(query); !rfc9111.MayChangeQuery(nil, left) {
				return // it is signed, and forwarded as it came
			}
		}
		for _, name := range []func(string) string{
			func(param string) string { return param },
			paramName,
			func(param string) string { return strings.ToLower(paramName(param)) },
		} {
			left, had := map[string][]string{}, map[string][]string{}
			for _, param := range strings.Split(once, "&") {
				left[name(param)] = append(left[name(param)], param)
			}
			for _, param := range strings.Split(query, "&") {
				if h.query == nil || h.query.keeps(paramName(param)) {
					had[name(param)] = append(had[name(param)], param)
				}
			}
			if once == "" && len(had) == 0 {
				continue
			}
			if !reflect.DeepEqual(left, had) {
				t.Errorf("%q becomes %q: by name %q; want %q", query, once, left, had)
			}
		}
	})
}
