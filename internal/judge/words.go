package judge

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Words are what the origin says in a response.
type words struct {
	header  http.Header
	private bool // for a private cache
	forced  bool // the route overrides no-store, no-cache and private
}

func (w words) directive(name string) (value string, ok bool) {
	for _, d := range strings.Split(w.header.Get("Cache-Control"), ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(d), "=")
		if strings.EqualFold(key, name) {
			return value, true
		}
	}
	return "", false
}

func (w words) says(name string) bool {
	_, ok := w.directive(name)
	return ok
}

func (w words) seconds(name string) time.Duration {
	v, _ := w.directive(name)
	n, _ := strconv.Atoi(v)
	return time.Duration(n) * time.Second
}

// lifetime returns the freshness lifetime that the origin states, 0 for none.
func (w words) lifetime() time.Duration {
	if w.says("s-maxage") && !w.private {
		return w.seconds("s-maxage")
	}
	if w.says("max-age") {
		return w.seconds("max-age")
	}
	expires, err := http.ParseTime(w.header.Get("Expires"))
	date, err2 := http.ParseTime(w.header.Get("Date"))
	if err != nil || err2 != nil {
		return 0
	}
	return expires.Sub(date)
}

func (w words) window() time.Duration {
	return max(w.seconds("stale-while-revalidate"), w.seconds("stale-if-error"))
}

// takenBack reports whether a directive forbids what the route forces.
func (w words) takenBack() bool {
	return w.forced && (w.says("no-store") || w.says("no-cache") || w.says("private"))
}

// positive reports whether the origin permits sharing by public or a lifetime.
func (w words) positive() bool {
	return !w.takenBack() && (w.says("public") || w.lifetime() > 0)
}

// justify reports whether the origin's own words permit sharing.
func (w words) justify() bool { return w.positive() || !w.takenBack() && w.window() > 0 }

// stated reports whether the origin says anything about a lifetime, be it 0.
func (w words) stated() bool {
	return w.says("public") || w.says("max-age") || w.says("s-maxage") || w.header.Get("Expires") != "" || w.window() > 0
}

// vary returns the names of Vary, "*" among them.
func (w words) vary() []string {
	var names []string
	for _, name := range strings.FieldsFunc(strings.Join(w.header["Vary"], ","), func(r rune) bool { return r == ',' || r == '\n' }) {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, http.CanonicalHeaderKey(name))
		}
	}
	return names
}

// updated returns the fields of a response after a 304: those of the 304 win, and Vary is
// the union of both.
func updated(stored, by304 http.Header) http.Header {
	h := stored.Clone()
	for name, lines := range by304 {
		if name == "Vary" {
			h[name] = append(append([]string(nil), h[name]...), lines...)
		} else if name != "Content-Type" && name != "Content-Encoding" {
			h[name] = lines
		}
	}
	return h
}
