package admin

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/weir-go/weir/weirhttp"
)

// maxOrder limits the body of a request: room for ten thousand tags.
const maxOrder = 1 << 20

// A purgeOrder is the body of POST /purge. Exactly one of URL, Tags and All is set.
type purgeOrder struct {
	URL    string   `json:"url"`
	Tags   []string `json:"tags"`
	All    bool     `json:"all"`
	Expire bool     `json:"expire"` // make them stale instead of removing them
}

// check returns what is wrong with the order.
func (o purgeOrder) check() error {
	n := 0
	for _, given := range []bool{o.URL != "", len(o.Tags) > 0, o.All} {
		if given {
			n++
		}
	}
	if n != 1 {
		return errors.New(`want one of "url", "tags" and "all"`)
	}
	for _, tag := range o.Tags {
		if tag == "" {
			return errors.New("a tag is empty")
		}
	}
	return nil
}

// purge removes responses, or makes them stale.
func (s *server) purge(w http.ResponseWriter, r *http.Request) {
	var o purgeOrder
	if !read(w, r, &o) {
		return
	}
	if err := o.check(); err != nil {
		fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	result := map[string]any{"expire": o.Expire}
	cache := s.gateway.Cache()
	var purged error
	// A client that has sent this and left still wants it done.
	ctx := context.WithoutCancel(r.Context())
	url, tags, all := s.gateway.Invalidate, cache.InvalidateTags, cache.InvalidateAll
	if o.Expire {
		url, tags, all = s.gateway.Expire, cache.ExpireTags, cache.ExpireAll
	}
	switch {
	case o.URL != "":
		u, err := absolute(o.URL)
		if err != nil {
			fail(w, http.StatusBadRequest, "%v", err)
			return
		}
		result["responses"], purged = url(ctx, u.Scheme, u.Host, u.RequestURI())
	case o.All:
		result["responses"] = cache.Stats().Responses
		purged = all(ctx)
	default:
		// The cache finds the responses of a tag when they are next requested.
		purged = tags(ctx, o.Tags...)
		result["tags"] = len(o.Tags)
	}
	status := http.StatusOK
	if cache.Stats().Fleet != nil {
		result["fleet"] = "purged"
	}
	if purged != nil { // the others continue to serve it
		status, result["fleet"], result["error"] = http.StatusServiceUnavailable, "not reached", purged.Error()
		s.o.Logger.Warn("a purge has not reached the fleet", "error", purged)
	}
	s.o.Logger.Info("purged", "client", r.RemoteAddr, "url", o.URL, "tags", o.Tags, "all", o.All, "expire", o.Expire)
	write(w, status, result)
}

// A question is the body of POST /explain.
type question struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]values `json:"headers"`
	Body    string            `json:"body"` // of a read; never logged or answered
}

// values holds the values of a field: a string, or an array of strings.
type values []string

func (v *values) UnmarshalJSON(b []byte) error {
	var one string
	if err := json.Unmarshal(b, &one); err == nil {
		*v = values{one}
		return nil
	}
	var many []string
	if err := json.Unmarshal(b, &many); err != nil {
		return errors.New("the value of a header is a string or an array of strings")
	}
	*v = many
	return nil
}

func (s *server) explainQuery(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.explain(w, r, question{Method: q.Get("method"), URL: q.Get("url")})
}

func (s *server) explainBody(w http.ResponseWriter, r *http.Request) {
	var q question
	if read(w, r, &q) {
		s.explain(w, r, q)
	}
}

func (s *server) explain(w http.ResponseWriter, r *http.Request, q question) {
	asked, err := q.request(r)
	if err != nil {
		fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	route, e := s.gateway.Explain(asked)
	answer(w, struct {
		Route string `json:"route"` // empty if none matches
		weirhttp.Explanation
	}{route, e})
}

// request returns the request to explain, as the server would have received it from this
// client.
func (q question) request(from *http.Request) (*http.Request, error) {
	u, err := absolute(q.URL)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(from.Context(), q.Method, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("method %q: not a method", q.Method)
	}
	r.URL.Scheme, r.URL.Host = "", "" // as in a request to an origin
	r.RequestURI = u.RequestURI()
	r.RemoteAddr = from.RemoteAddr
	r.Body = http.NoBody
	if q.Body != "" {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(q.Body)), int64(len(q.Body))
	}
	if u.Scheme == "https" {
		r.TLS = &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true}
	}
	for name, vs := range q.Headers {
		if http.CanonicalHeaderKey(name) == "Host" && len(vs) > 0 {
			r.Host = vs[0]
			continue
		}
		for _, v := range vs {
			r.Header.Add(name, v)
		}
	}
	return r, nil
}

// absolute parses a URL as clients of the proxy use it.
func absolute(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		if strings.Contains(text, "@") { // the error may quote a part of a password
			return nil, errors.New("url: cannot be read, or names a user")
		}
		return nil, fmt.Errorf("url: %w", errors.Unwrap(err))
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("url: want http://host/path or https://host/path, as clients ask for it")
	case u.User != nil:
		return nil, errors.New("url: names a user")
	}
	u.Fragment, u.RawFragment = "", "" // clients do not send it
	return u, nil
}

// inJSON describes what is wrong with a body for v in terms of JSON, not of Go.
func inJSON(err error, v any) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if field, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown { // it has no type of its own
		var names []string
		for f := range reflect.TypeOf(v).Elem().Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
		}
		return fmt.Errorf("%s is no field; there are %s", field, strings.Join(names, ", "))
	}
	if !ok {
		return err
	}
	want := map[reflect.Kind]string{
		reflect.Slice: "a list", reflect.Bool: "true or false", reflect.String: "a string", reflect.Struct: "an object", reflect.Map: "an object",
	}[wrong.Type.Kind()]
	if want == "" {
		want = "a number"
	}
	if wrong.Type.Kind() == reflect.Slice && wrong.Type.Elem().Kind() == reflect.String {
		want = `a list of strings, such as ["a", "b"]`
	}
	if wrong.Field == "" {
		return fmt.Errorf("is a JSON %s; want %s", wrong.Value, want)
	}
	return fmt.Errorf("%q is a JSON %s; want %s", wrong.Field, wrong.Value, want)
}

// read decodes the body into v, and writes the error response if it cannot.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOrder))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && d.Decode(&struct{}{}) != io.EOF {
		err = errors.New("more than one value")
	}
	if err != nil {
		status := http.StatusBadRequest
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			status = http.StatusRequestEntityTooLarge
		}
		fail(w, status, "the body: %v", inJSON(err, v))
		return false
	}
	return true
}
