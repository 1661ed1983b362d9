package soak

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kinds of requests.
const (
	opPage   = "hit"
	opCold   = "cold key"
	opMine   = "authorized page"
	opRange  = "range"
	opStream = "event stream"
	opUpload = "upload"
	opJob    = "job"
	opPurge  = "purge"
	opSlow   = "slow client" // whether it is disconnected does not matter: only the other requests do
)

// mix is the share of each kind, in percent.
var mix = []struct {
	op     string
	weight int
}{
	{opPage, 50}, {opCold, 12}, {opMine, 8}, {opRange, 8}, {opStream, 4}, {opUpload, 6}, {opJob, 4}, {opPurge, 6}, {opSlow, 2},
}

// patience is how long a client waits for a complete response.
const patience = 30 * time.Second

// maxRead bounds the bytes that a client reads.
const maxRead = 4 << 20

// pick draws a kind of request.
func pick(r *rand.Rand) string {
	n := r.IntN(100)
	for _, m := range mix {
		if n -= m.weight; n < 0 {
			return m.op
		}
	}
	return opPage
}

// load sends requests, on average Rate per second and each on its own goroutine,
// until ctx ends. It returns when all have finished.
func (s *soak) load(ctx context.Context, seed uint64) {
	var all sync.WaitGroup
	defer all.Wait()
	r := rand.New(rand.NewPCG(seed, 1))
	inFlight := make(chan struct{}, maxInFlight)
	for n := 0; rest(ctx, time.Duration(r.ExpFloat64()/s.o.Rate*float64(time.Second))); n++ {
		select {
		case inFlight <- struct{}{}:
		default:
			s.shed++ // everything waits because of a fault; more requests would show nothing new
			continue
		}
		draw := rand.New(rand.NewPCG(seed, uint64(n)+2))
		all.Go(func() {
			defer func() { <-inFlight }()
			s.request(draw, n)
		})
	}
}

// maxInFlight bounds the requests in flight.
const maxInFlight = 300

// request sends one request and judges the response.
func (s *soak) request(r *rand.Rand, n int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	g := s.gateways[r.IntN(len(s.gateways))]
	op := pick(r)
	s.ledger.sent(op)
	c := call{s: s, g: g, op: op, r: r, n: n, began: time.Now(), life: g.life()}
	var err error
	switch op {
	case opPage:
		path := fmt.Sprintf("/page/%d", zipf(r, pages))
		err = c.whole(ctx, path, path, nil)
	case opCold:
		path := fmt.Sprintf("/cold/%d-%d", n, r.IntN(1<<30))
		err = c.whole(ctx, path, path, nil)
	case opMine:
		user := fmt.Sprintf("Bearer user-%d", r.IntN(users))
		path := fmt.Sprintf("/mine/%d", r.IntN(20))
		err = c.whole(ctx, path, path+" "+user, map[string]string{"Authorization": user})
	case opRange:
		err = c.part(ctx)
	case opStream:
		err = c.stream(ctx)
	case opUpload:
		err = c.upload(ctx)
	case opJob:
		err = c.job(ctx)
	case opPurge:
		err = c.purge(ctx)
	case opSlow:
		err = c.dawdle(ctx)
	}
	var wrong *wrongError
	switch {
	case err == nil:
		s.ledger.good(op)
	case errors.As(err, &wrong):
		s.ledger.bad(wrongBody, "weir %d, %s: %v", g.index, op, err)
	default:
		s.ledger.failed(g.index, op, c.began, "%v", err)
	}
}

// zipf draws a number below n, lower ones more often.
func zipf(r *rand.Rand, n int) int {
	f := r.Float64()
	return int(f * f * float64(n))
}

// A wrongError reports a body that is not the requested one.
type wrongError struct{ what string }

func (e *wrongError) Error() string { return e.what }

func wrong(format string, args ...any) error { return &wrongError{fmt.Sprintf(format, args...)} }

// A call is one request of a client.
type call struct {
	s     *soak
	g     *gateway
	op    string
	r     *rand.Rand
	n     int
	began time.Time
	life  int // life of the gateway's process at the start of the call
}

// send sends a request, either over HTTP/1.1 or over TLS and HTTP/2.
func (c *call) send(ctx context.Context, method, path string, body io.Reader, fields map[string]string) (*http.Response, error) {
	scheme := "http"
	if c.r.IntN(2) == 0 {
		scheme = "https"
	}
	r, err := http.NewRequestWithContext(ctx, method, scheme+"://"+host+path, body)
	if err != nil {
		return nil, err
	}
	for k, v := range fields {
		r.Header.Set(k, v)
	}
	return c.g.http.Do(r)
}

// get returns a complete body with one of the statuses, or an error.
func (c *call) get(ctx context.Context, path string, fields map[string]string, want ...int) ([]byte, *http.Response, error) {
	resp, err := c.send(ctx, http.MethodGet, path, nil, fields)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRead))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: after %d bytes: %w", path, len(body), err)
	}
	if !slices.Contains(want, resp.StatusCode) {
		return nil, nil, fmt.Errorf("%s: status %d: %s", path, resp.StatusCode, clip(string(body)))
	}
	return body, resp, nil
}

func (c *call) whole(ctx context.Context, path, owner string, fields map[string]string) error {
	body, _, err := c.get(ctx, path, fields, http.StatusOK)
	if err != nil {
		return err
	}
	v, err := versionOf(body, owner)
	if err != nil {
		return wrong("%s: %v", path, err)
	}
	if c.op == opPage {
		c.s.ledger.response(c.g, c.life, path, v, c.began)
	}
	return nil
}

func (c *call) part(ctx context.Context) error {
	path := fmt.Sprintf("/blob/%d", c.r.IntN(10))
	first := c.r.IntN(blobSize)
	last := first + c.r.IntN(blobSize-first)
	body, resp, err := c.get(ctx, path, map[string]string{"Range": fmt.Sprintf("bytes=%d-%d", first, last)}, http.StatusPartialContent, http.StatusOK)
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusOK { // a response that is not stored yet arrives complete
		first, last = 0, len(body)-1
		if _, err := versionOf(body, path); err != nil {
			return wrong("%s: %v", path, err)
		}
	}
	if len(body) != last-first+1 {
		return wrong("%s: %d bytes for bytes=%d-%d", path, len(body), first, last)
	}
	v, err := partOf(body, path, first, blobSize, c.s.source.version(path))
	if err != nil {
		return wrong("%v", err)
	}
	if tag := resp.Header.Get("ETag"); len(body) > 32 && tag != fmt.Sprintf(`"%d"`, v) {
		return wrong("%s: the bytes of version %d with ETag %s", path, v, tag)
	}
	if len(body) > 32 { // fewer bytes can occur in several versions
		c.s.ledger.response(c.g, c.life, path, v, c.began)
	}
	return nil
}

func (c *call) stream(ctx context.Context) error {
	path := fmt.Sprintf("/stream/%d", c.n)
	resp, err := c.send(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", path, resp.StatusCode)
	}
	events := 0
	for in := bufio.NewScanner(io.LimitReader(resp.Body, maxRead)); ; {
		if !in.Scan() {
			if err := in.Err(); err != nil {
				return fmt.Errorf("%s: after %d events: %w", path, events, err)
			}
			break
		}
		if in.Text() == "" {
			continue
		}
		if want := fmt.Sprintf("data: %s %d", path, events); in.Text() != want {
			return wrong("%s: event %q; want %q", path, clip(in.Text()), want)
		}
		events++
	}
	if events != eventCount {
		return wrong("%s: ends after %d events of %d", path, events, eventCount)
	}
	return nil
}

func (c *call) upload(ctx context.Context) error {
	body := make([]byte, 1+c.r.IntN(200<<10))
	for i := range body {
		body[i] = byte(c.r.Uint32())
	}
	path := fmt.Sprintf("/upload/%d", c.n)
	var in io.Reader = bytes.NewReader(body)
	if c.r.IntN(3) == 0 {
		in = io.MultiReader(in) // hides the length
	}
	resp, err := c.send(ctx, http.MethodPost, path, in, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(io.LimitReader(resp.Body, maxRead))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d: %s", path, resp.StatusCode, clip(string(got)))
	}
	if want := fmt.Sprintf("%s %d %x", path, len(body), sha256.Sum256(body)); string(got) != want {
		return wrong("%s: %q; want %q", path, clip(string(got)), want)
	}
	return nil
}

// dawdle sends a body slowly, or does not read a response, and leaves.
func (c *call) dawdle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if c.r.IntN(2) == 0 {
		resp, err := c.send(ctx, http.MethodGet, fmt.Sprintf("/blob/%d", c.r.IntN(10)), nil, nil)
		if err == nil {
			<-ctx.Done()
			resp.Body.Close()
		}
		return nil
	}
	in, out := io.Pipe()
	go func() { // ends with ctx
		for rest(ctx, 500*time.Millisecond) {
			if _, err := io.WriteString(out, "x"); err != nil {
				return
			}
		}
		out.CloseWithError(context.Cause(ctx))
	}()
	resp, err := c.send(ctx, http.MethodPost, fmt.Sprintf("/upload/%d", c.n), in, nil)
	if err == nil {
		resp.Body.Close()
	}
	return nil
}

// purge changes a page and purges it, by URL or by its tag.
func (c *call) purge(ctx context.Context) error {
	n := c.r.IntN(pages)
	if c.r.IntN(4) > 0 {
		n = zipf(c.r, pages)
	}
	paths := []string{fmt.Sprintf("/page/%d", n)}
	if c.r.IntN(4) == 0 {
		paths[0] = fmt.Sprintf("/blob/%d", c.r.IntN(10))
	}
	orders := []string{
		fmt.Sprintf(`{"url": "http://%s%s"}`, host, paths[0]),
		fmt.Sprintf(`{"url": "https://%s%s"}`, host, paths[0]),
	}
	if c.r.IntN(2) == 0 && strings.HasPrefix(paths[0], "/page/") {
		orders = []string{fmt.Sprintf(`{"tags": [%q]}`, tagOf(fmt.Sprint(n)))}
		paths = nil
		for i := n % tags; i < pages; i += tags {
			paths = append(paths, fmt.Sprintf("/page/%d", i))
		}
	}
	changed := paths[:1] // a tag can purge more than the changed page
	for _, p := range changed {
		done := c.s.ledger.check.Changing(p)
		c.s.source.change(p)
		done()
	}
	type purge struct {
		path  string
		below int64
		done  func()
	}
	var purges []purge
	for _, p := range paths {
		purges = append(purges, purge{p, c.s.source.version(p), c.s.ledger.check.Invalidating(p)})
	}
	everywhere := true
	for _, order := range orders {
		pending, err := c.order(ctx, order)
		if err != nil {
			return err
		}
		everywhere = everywhere && !pending
	}
	for _, p := range purges {
		if everywhere {
			p.done()
		}
		c.s.ledger.purged(c.g.index, c.life, p.path, p.below)
	}
	return nil
}
