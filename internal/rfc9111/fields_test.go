package rfc9111_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/weir-go/weir/internal/rfc9111"
)

func equalFields(a, b http.Header) bool {
	return maps.EqualFunc(a, b, func(x, y []string) bool { return slices.Equal(x, y) })
}

func TestH10_EndToEnd(t *testing.T) {
	kept := []string{"A", "1", "A", "2", "Content-Length", "3", "Content-Range", "x", "Etag", `"x"`, "Cache-Control", "max-age=1", "X-Empty", ""}
	h := fields(kept...)
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
		"Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info", "b", "c", "d"} {
		h.Add(name, "x")
	}
	h["Connection"] = []string{"close, b", " C,,d "}
	before := h.Clone()
	if got := rfc9111.EndToEnd(h); !equalFields(got, fields(kept...)) {
		t.Errorf("EndToEnd = %v; want %v", got, fields(kept...))
	}
	if !equalFields(h, before) {
		t.Errorf("EndToEnd has changed its argument: %v", h)
	}
}

func TestH10_FreshenUpdatesTheStoredFields(t *testing.T) {
	stored := fields("A", "1", "B", "2", "Cache-Control", "max-age=1", "Content-Length", "36", "Content-Encoding", "gzip",
		"Age", "100", "Date", httpTime(-sec), "Etag", `"a"`, "Content-Type", "text/plain")
	update := fields("A", "3", "A", "4", "Cache-Control", "max-age=9", "Content-Length", "10", "Content-Encoding", "br",
		"Content-Range", "x", "Set-Cookie", "a=b", "Connection", "hop", "Hop", "1", "Transfer-Encoding", "chunked",
		"Content-Type", "text/html", "New", "1")
	want := fields("A", "3", "A", "4", "B", "2", "Cache-Control", "max-age=9", "Content-Length", "36", "Content-Encoding", "gzip",
		"Etag", `"a"`, "Content-Type", "text/html", "New", "1")
	before := stored.Clone()
	if got := rfc9111.Freshen(stored, update); !equalFields(got, want) {
		t.Errorf("Freshen = %v; want %v", got, want)
	}
	if !equalFields(stored, before) {
		t.Errorf("Freshen has changed the stored fields: %v", stored)
	}
	update.Set("Age", "5")
	update.Set("Date", httpTime(0))
	if got := rfc9111.Freshen(stored, update); got.Get("Age") != "5" || got.Get("Date") != httpTime(0) {
		t.Errorf("Freshen = %v; want Age and Date of the update", got)
	}
	if got := rfc9111.Freshen(nil, fields("A", "1")); !equalFields(got, fields("A", "1")) {
		t.Errorf("Freshen(nil) = %v; want the update", got)
	}
}

func TestH10_Validators(t *testing.T) {
	modified := httpTime(-100 * sec)
	conditions := []string{"If-Match", "*", "If-None-Match", `"x"`, "If-Modified-Since", "x", "If-Unmodified-Since", "x", "If-Range", "x", "Range", "bytes=0-"}
	tests := []struct {
		stored, want http.Header
		has          bool
	}{
		{fields("Etag", `"a"`), fields("If-None-Match", `"a"`), true},
		{fields("Etag", `W/"a"`, "Last-Modified", modified), fields("If-None-Match", `W/"a"`, "If-Modified-Since", modified), true},
		{fields("Last-Modified", modified), fields("If-Modified-Since", modified), true},
		{fields("Etag", " "), http.Header{}, false},
		{noFields, http.Header{}, false},
	}
	for _, tt := range tests {
		h := fields(append(slices.Clone(conditions), "Accept", "x")...)
		tt.want.Set("Accept", "x")
		if got := rfc9111.Validators(h, tt.stored); got != tt.has || !equalFields(h, tt.want) {
			t.Errorf("Validators(%v) = %v, %v; want %v, %v", tt.stored, got, h, tt.has, tt.want)
		}
	}
}

func TestH10_Validates(t *testing.T) {
	modified, other := httpTime(-100*sec), httpTime(-99*sec)
	asc := t0.Add(-100 * sec).Format("Mon Jan _2 15:04:05 2006")
	tests := []struct {
		stored, update http.Header
		want           bool
	}{
		{fields("Etag", `"a"`), fields("Etag", `"a"`), true},
		{fields("Etag", `"a"`), fields("Etag", `"b"`), false},
		{fields("Etag", `"a"`), fields("Etag", `"A"`), false},
		{fields("Etag", `W/"a"`), fields("Etag", `"a"`), false}, // a strong one selects by strong comparison
		{fields("Etag", `"a"`), fields("Etag", `W/"a"`), true},
		{fields("Etag", `W/"a"`), fields("Etag", `W/"a"`), true},
		{fields("Etag", `W/"a"`), fields("Etag", `W/"b"`), false},
		{fields("Etag", `"a"`, "Last-Modified", modified), fields("Etag", `"b"`, "Last-Modified", modified), false},
		{fields("Etag", `"a"`, "Last-Modified", modified), fields("Etag", `"a"`, "Last-Modified", other), true},
		{fields("Last-Modified", modified), fields("Etag", `"a"`), false},
		{fields("Last-Modified", modified), fields("Last-Modified", modified), true},
		{fields("Last-Modified", modified), fields("Last-Modified", asc), true},
		{fields("Last-Modified", modified), fields("Last-Modified", other), false},
		{fields("Last-Modified", "x"), fields("Last-Modified", "x"), true},
		{fields("Last-Modified", modified), fields("Last-Modified", "x"), false},
		{fields("Etag", `"a"`), fields("Last-Modified", modified), false},
		{fields("Etag", `"a"`), noFields, true},
		{noFields, noFields, true},
	}
	for _, tt := range tests {
		if got := rfc9111.Validates(tt.stored, tt.update); got != tt.want {
			t.Errorf("Validates(%v, %v) = %v; want %v", tt.stored, tt.update, got, tt.want)
		}
	}
}

func TestH10_Invalidates(t *testing.T) {
	const own = "/dir/a;x=%2f?q=1"
	tests := []struct {
		method string
		status int
		nv     []string
		want   []string
	}{
		{"POST", 200, nil, []string{own}},
		{"PUT", 204, nil, []string{own}},
		{"DELETE", 303, nil, []string{own}},
		{"PATCH", 399, nil, []string{own}},
		{"M-SEARCH", 200, nil, []string{own}},
		{"get", 200, nil, []string{own}}, // methods have a case
		{"POST", 199, nil, nil},
		{"POST", 400, nil, nil},
		{"POST", 500, []string{"Location", "/b"}, nil},
		{"GET", 200, nil, nil},
		{"", 200, nil, nil},
		{"HEAD", 200, nil, nil},
		{"OPTIONS", 200, []string{"Location", "/b"}, nil},
		{"TRACE", 200, nil, nil},
		{"POST", 201, []string{"Location", "/b%2F?y", "Content-Location", "c"}, []string{own, "/b%2F?y", "/dir/c"}},
		{"POST", 201, []string{"Location", "http://EXAMPLE.com/b#f"}, []string{own, "/b"}},
		{"POST", 201, []string{"Location", "HTTP://example.com:80"}, []string{own, "/"}},
		{"POST", 201, []string{"Location", "//example.com/b"}, []string{own, "/b"}},
		{"POST", 201, []string{"Location", "https://example.com/b"}, []string{own}},
		{"POST", 201, []string{"Location", "http://example.com:81/b"}, []string{own}},
		{"POST", 201, []string{"Location", "http://example.org/b", "Content-Location", "//evil/b"}, []string{own}},
		{"POST", 201, []string{"Location", "http://example.com@evil/b"}, []string{own}},
		{"POST", 201, []string{"Location", "mailto:a@example.com", "Content-Location", "%zz"}, []string{own}},
		{"POST", 201, []string{"Location", "", "Content-Location", own}, []string{own}},
	}
	for _, tt := range tests {
		r := &http.Request{Method: tt.method, Host: "example.com", RequestURI: own, URL: &url.URL{Path: "/rewritten"}}
		if got := rfc9111.Invalidates(r, "http", tt.status, fields(tt.nv...)); !slices.Equal(got, tt.want) {
			t.Errorf("Invalidates(%s, %d, %q) = %q; want %q", tt.method, tt.status, tt.nv, got, tt.want)
		}
	}
	out, err := http.NewRequest("POST", "http://example.com:8080/a?b", nil)
	if err != nil {
		t.Fatal(err)
	}
	h := fields("Location", "http://example.com:8080/c", "Content-Location", "http://example.com/d")
	if got := rfc9111.Invalidates(out, "http", 200, h); !slices.Equal(got, []string{"/a?b", "/c"}) {
		t.Errorf("Invalidates of a client's request = %q; want /a?b and /c", got)
	}
}
