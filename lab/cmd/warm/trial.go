package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/lab/internal/proc"
)

// clients is how many requests run at once.
const clients = 16

// purges is how many objects are purged.
const purges = 100

// site is the host in the URLs. The port of the proxy changes with each start.
const site = "shop.example"

// originDelay is how long the origin takes for a response.
const originDelay = 5 * time.Millisecond

// A trial is one run.
type trial struct {
	objects, size   int
	program, folder string

	origin string       // its URL
	calls  atomic.Int64 // of the origin
	http   *http.Client

	purgeTimes []time.Duration
	starts     []start
	faults     []error
}

// A start is what is measured after a start.
type start struct {
	name    string
	ready   time.Duration // from the start of the process to its first response
	first   time.Duration // of the first object
	hit     bool          // it was a hit
	hits    int
	calls   int64 // of the origin, for all objects
	took    time.Duration
	p99     time.Duration
	objects int   // in the folder
	bytes   int64 // of its files
}

func (t *trial) run(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	t.origin = "http://" + l.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(t.respond), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // ends with Close
	defer server.Close()
	t.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 2 * clients}}

	for _, warm := range []bool{true, false} {
		if err := t.measure(ctx, warm); err != nil {
			return err
		}
	}
	return nil
}

// body is the body of an object.
func (t *trial) body(path string) string {
	text := "object " + path + ". "
	return strings.Repeat(text, t.size/len(text)+1)[:t.size]
}

func (t *trial) respond(w http.ResponseWriter, r *http.Request) {
	t.calls.Add(1)
	time.Sleep(originDelay)
	w.Header().Set("Cache-Control", "max-age=86400")
	_, _ = io.WriteString(w, t.body(r.URL.Path))
}

// measure fills a proxy, kills it while it writes, and measures the next start.
func (t *trial) measure(ctx context.Context, warm bool) error {
	p, err := t.start(ctx, warm)
	if err != nil {
		return err
	}
	all := func(kind string, n int) (paths []string) {
		for i := range n {
			paths = append(paths, fmt.Sprintf("/%s/%d", kind, i))
		}
		return paths
	}
	stored := all("object", t.objects)
	if _, err := t.get(ctx, p, stored, nil); err != nil {
		return errors.Join(err, p.kill())
	}
	if warm {
		if err := t.purge(ctx, p, stored[:purges]); err != nil {
			return errors.Join(err, p.kill())
		}
	}
	// More is written while it is killed.
	more, cancel := context.WithCancel(ctx)
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = t.get(more, p, all("more", t.objects), nil) // it is cut off
	}()
	time.Sleep(time.Second)
	err = p.kill()
	cancel()
	<-written
	if err != nil {
		return err
	}
	return t.again(ctx, warm, stored)
}

// again starts the proxy after it was killed, and requests what was stored.
func (t *trial) again(ctx context.Context, warm bool, stored []string) error {
	s := start{name: "without a folder"}
	if warm {
		s.name = "with a folder"
	}
	began := time.Now()
	p, err := t.start(ctx, warm)
	if err != nil {
		return err
	}
	defer p.kill()
	s.ready = time.Since(began)
	if warm {
		st, err := p.stats(ctx)
		if err != nil {
			return err
		}
		s.objects, s.bytes = st.Cache.Folder.Responses, st.Cache.Folder.Bytes
	}
	t.calls.Store(0)
	kept := stored[purges:]
	began = time.Now()
	r, err := t.get(ctx, p, kept[:1], nil)
	if err != nil {
		return err
	}
	s.first, s.hit = time.Since(began), r.hits == 1
	began = time.Now()
	r, err = t.get(ctx, p, kept, &s)
	if err != nil {
		return err
	}
	s.took, s.hits, s.calls = time.Since(began), r.hits, t.calls.Load()
	t.starts = append(t.starts, s)
	t.check(r.wrong == 0, "%s: %d responses were wrong", s.name, r.wrong)
	if !warm {
		return nil
	}
	t.check(s.ready < time.Second, "%s: ready after %v; want less than a second", s.name, s.ready)
	t.check(s.hit && s.calls == 0, "%s: the first request is a hit: %v, and the origin was called %d times; want true and 0", s.name, s.hit, s.calls)
	r, err = t.get(ctx, p, stored[:purges], nil)
	if err != nil {
		return err
	}
	t.check(r.hits == 0, "%s: %d purged objects are back", s.name, r.hits)
	return nil
}

func (t *trial) check(ok bool, format string, args ...any) {
	if !ok {
		t.faults = append(t.faults, fmt.Errorf(format, args...))
	}
}

// A result is what a series of requests brought.
type result struct{ hits, wrong int }

// get requests the paths once each. s, if not nil, gets the 99th percentile.
func (t *trial) get(ctx context.Context, p *gateway, paths []string, s *start) (result, error) {
	var next, hits, wrong atomic.Int64
	times := make([]time.Duration, len(paths))
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(paths); i = int(next.Add(1)) - 1 {
				began := time.Now()
				body, status, err := p.get(ctx, t.http, paths[i])
				times[i] = time.Since(began)
				if err != nil {
					errs[c] = err
					return
				}
				if strings.Contains(status, "; hit") {
					hits.Add(1)
				}
				if body != t.body(paths[i]) {
					wrong.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if s != nil {
		slices.Sort(times)
		s.p99 = times[len(times)*99/100]
	}
	return result{int(hits.Load()), int(wrong.Load())}, errors.Join(errs...)
}

// purge purges the objects, one after the other, once they are in the folder.
func (t *trial) purge(ctx context.Context, p *gateway, paths []string) error {
	for {
		st, err := p.stats(ctx)
		if err != nil {
			return err
		}
		if st.Cache.Folder.Queued == 0 {
			t.check(st.Cache.Folder.Dropped == 0, "%d responses were not written", st.Cache.Folder.Dropped)
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, path := range paths {
		text, err := json.Marshal(map[string]string{"url": "http://" + site + path})
		if err != nil {
			return err
		}
		began := time.Now()
		resp, err := t.http.Post(p.admin+"/purge", "application/json", strings.NewReader(string(text)))
		if err != nil {
			return err
		}
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
		_ = resp.Body.Close()
		t.purgeTimes = append(t.purgeTimes, time.Since(began))
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("purge %s: %s %s", path, resp.Status, answer)
		}
	}
	slices.Sort(t.purgeTimes)
	return nil
}

// print writes the table.
func (t *trial) print(w io.Writer) {
	fmt.Fprintf(w, "%d objects of %d bytes, an origin that takes %v, %d clients; killed with SIGKILL while it wrote more\n\n", t.objects, t.size, originDelay, clients)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\tready\tfirst object\thit\thits\torigin calls\tall objects\tp99\tin the folder\tits files")
	for _, s := range t.starts {
		fmt.Fprintf(tw, "%s\t%v\t%v\t%v\t%d of %d\t%d\t%v\t%v\t%d\t%.1f MiB\n", s.name, s.ready.Round(time.Millisecond), s.first.Round(10*time.Microsecond), s.hit,
			s.hits, t.objects-purges, s.calls, s.took.Round(10*time.Millisecond), s.p99.Round(10*time.Microsecond), s.objects, float64(s.bytes)/(1<<20))
	}
	_ = tw.Flush()
	fmt.Fprintf(w, "\n%d purges, one after the other, each durable when it returned: median %v, 99th percentile %v\n", len(t.purgeTimes),
		t.purgeTimes[len(t.purgeTimes)/2].Round(10*time.Microsecond), t.purgeTimes[len(t.purgeTimes)*99/100].Round(10*time.Microsecond))
	for _, err := range t.faults {
		fmt.Fprintln(w, "FAILED:", err)
	}
}

// A gateway is a running weir proxy.
type gateway struct {
	p          *proc.Process
	url, admin string
	client     *http.Client
}

// start starts a proxy, and waits for its first response.
func (t *trial) start(ctx context.Context, warm bool) (*gateway, error) {
	public, err := free()
	if err != nil {
		return nil, err
	}
	admin, err := free()
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("listen: [{address: %q}]\nadmin: {address: %q}\nupstreams: [{name: app, servers: [%q]}]\nlog: {access: \"off\"}\ncache: {memory: 256MiB", public, admin, t.origin)
	if warm {
		text += fmt.Sprintf(", dir: %q, dir_size: 4GiB", filepath.Join(t.folder, "cache"))
	}
	file := filepath.Join(t.folder, "weir.yaml")
	if err := os.WriteFile(file, []byte(text+"}\n"), 0o600); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(t.folder, "weir.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), t.program, "proxy", "--config", file)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := proc.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, err
	}
	g := &gateway{p: p, url: "http://" + public, admin: "http://" + admin, client: t.http}
	for {
		if resp, err := t.http.Get(g.admin + "/readyz"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return g, nil
			}
		}
		select {
		case <-p.Ended():
			text, _ := os.ReadFile(log.Name())
			return nil, fmt.Errorf("weir proxy ended: %s", text)
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), g.kill())
		case <-time.After(time.Millisecond):
		}
	}
}

// kill kills the proxy, and waits for its end.
func (g *gateway) kill() error {
	err := g.p.SignalGroup(syscall.SIGKILL)
	<-g.p.Ended()
	return err
}

// get returns the body and the Cache-Status of a response.
func (g *gateway) get(ctx context.Context, c *http.Client, path string) (body, status string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+path, nil)
	if err != nil {
		return "", "", err
	}
	r.Host = site
	resp, err := c.Do(r)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<30))
	return string(b), resp.Header.Get("Cache-Status"), err
}

// stats is a part of the page /stats.
type stats struct {
	Cache struct {
		Folder struct {
			Responses int    `json:"responses"`
			Bytes     int64  `json:"bytes"`
			Queued    int64  `json:"queued"`
			Dropped   uint64 `json:"dropped"`
		} `json:"folder"`
	} `json:"cache"`
}

func (g *gateway) stats(ctx context.Context) (s stats, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.admin+"/stats", nil)
	if err != nil {
		return s, err
	}
	resp, err := g.client.Do(r)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(&s)
}

// free returns an address that is free now.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
