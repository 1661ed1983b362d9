package soak

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The content and the timing of the source.
const (
	pages      = 60
	tags       = 6 // shared by pages
	users      = 8
	blobSize   = 200 << 10
	freshness  = 20 * time.Second // of pages, by max-age
	usualWait  = 10 * time.Millisecond
	slowWait   = 8 * time.Second // of a slow source
	eventCount = 5
	eventGap   = 150 * time.Millisecond
)

// A source is the service behind the gateways.
type source struct {
	url      string
	server   *http.Server
	slow     atomic.Bool
	requests atomic.Int64

	mu       sync.Mutex
	versions map[string]int64 // guarded by mu: of each page and blob, starting at 1
	runs     map[string][]run // guarded by mu: of each job
}

// A run is one execution of a job's work.
type run struct {
	begun, ended time.Time // ended is zero while it runs, or if its caller left
}

func newSource() (*source, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &source{url: "http://" + l.Addr().String(), versions: make(map[string]int64), runs: make(map[string][]run)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page/{id}", s.page)
	mux.HandleFunc("GET /blob/{id}", s.page)
	mux.HandleFunc("GET /cold/{id}", s.page)
	mux.HandleFunc("GET /mine/{id}", s.mine)
	mux.HandleFunc("GET /stream/{id}", s.stream)
	mux.HandleFunc("POST /upload/{id}", s.upload)
	mux.HandleFunc("/work/{id}", s.work)
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go s.server.Serve(l) //nolint:errcheck // it ends with close
	return s, nil
}

func (s *source) close() { s.server.Close() } //nolint:errcheck // no requests are left

// version returns the version of the resource at path.
func (s *source) version(path string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(1, s.versions[path])
}

// change creates a new version of the resource at path.
func (s *source) change(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions[path] = max(1, s.versions[path]) + 1
}

// wait waits for the duration of a response. It reports false if the caller has left.
func (s *source) wait(r *http.Request, d time.Duration) bool {
	s.requests.Add(1)
	if s.slow.Load() {
		d = slowWait
	}
	return rest(r.Context(), d)
}

// tagOf returns the tag of a page.
func tagOf(id string) string {
	n, _ := strconv.Atoi(id)
	return "g" + strconv.Itoa(n%tags)
}

// sizeOf returns the size of a page after its first line.
func sizeOf(path string) int {
	if strings.HasPrefix(path, "/blob/") {
		return blobSize
	}
	sum := sha256.Sum256([]byte(path))
	return 100 + int(sum[0])*100
}

// page serves storable responses: pages, blobs, and cold keys. It reads the version
// before it waits, like a query whose result is still in transit.
func (s *source) page(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	v := s.version(path)
	if !s.wait(r, usualWait) {
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "max-age="+strconv.Itoa(int(freshness.Seconds())))
	h.Set("ETag", fmt.Sprintf(`"%d"`, v))
	h.Set("Surrogate-Key", tagOf(r.PathValue("id")))
	body := bodyOf(path, v, sizeOf(path))
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body) //nolint:errcheck // the gateway has left
}

// mine serves a page that belongs to the requesting user. It states how long the page
// is fresh, but not that it may be shared.
func (s *source) mine(w http.ResponseWriter, r *http.Request) {
	user := r.Header.Get("Authorization")
	if !s.wait(r, usualWait) {
		return
	}
	w.Header().Set("Cache-Control", "max-age=60")
	w.Write(bodyOf(r.URL.Path+" "+user, 1, 1000)) //nolint:errcheck // the gateway has left
}

func (s *source) stream(w http.ResponseWriter, r *http.Request) {
	if !s.wait(r, usualWait) {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range eventCount {
		fmt.Fprintf(w, "data: %s %d\n\n", r.URL.Path, i)
		http.NewResponseController(w).Flush() //nolint:errcheck // as above
		if !rest(r.Context(), eventGap) {
			return
		}
	}
}

func (s *source) upload(w http.ResponseWriter, r *http.Request) {
	sum := sha256.New()
	n, err := io.Copy(sum, r.Body)
	if err != nil || !s.wait(r, usualWait) {
		return
	}
	fmt.Fprintf(w, "%s %d %x", r.URL.Path, n, sum.Sum(nil))
}

// work does the work of a job. Its result names the job.
func (s *source) work(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.mu.Lock()
	i := len(s.runs[id])
	s.runs[id] = append(s.runs[id], run{begun: time.Now()})
	s.mu.Unlock()
	if !s.wait(r, time.Duration(50+sizeOf(id)%400)*time.Millisecond) {
		return
	}
	s.mu.Lock()
	s.runs[id][i].ended = time.Now()
	s.mu.Unlock()
	w.Write(bodyOf(r.URL.Path, 1, 500)) //nolint:errcheck // as above
}

func (s *source) runsOf(id string) []run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]run(nil), s.runs[id]...)
}

// rest waits for d or until ctx ends, and reports whether d has passed.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
