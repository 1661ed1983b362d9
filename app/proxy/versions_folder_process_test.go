package proxy_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Two versions use one cache folder, one after the other, in both orders, after an orderly
// stop and after a kill. Each start serves what the other version has stored, from
// the first request on, and nothing that either has purged, expired or replaced. If
// the formats have different numbers, each start is cold instead.
func TestH28_VersionsShareACacheFolder(t *testing.T) {
	bothOrders(t, func(t *testing.T, first, second string) {
		one, two := newShelf(t).format(first), newShelf(t).format(second)
		t.Logf("the formats are %s and %s", one, two)
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			t.Run(sig.String(), func(t *testing.T) {
				s := newShelf(t)
				for step, program := range []string{first, second, first, second} {
					s.start(program)
					if step > 0 {
						s.check(one == two)
					}
					s.work(step)
					s.stop(sig)
				}
			})
		}
	})
}

// A shelf is a cache folder that several programs use, one after the other, and what
// they must find in it. A page is a path, or a path and a language.
type shelf struct {
	t            *testing.T
	file, folder string
	p            *process

	stored map[string]int // by page, the number of the origin's call whose response is stored
	gone   map[string]int // likewise, of the last response that must not come back

	mu    sync.Mutex
	calls map[string]int // guarded by mu; of the origin, by page
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{t: t, stored: map[string]int{}, gone: map[string]int{}, calls: map[string]int{}}
	origin := httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(origin.Close)
	dir := t.TempDir()
	s.file, s.folder = filepath.Join(dir, "weir.yaml"), filepath.Join(dir, "cache")
	config(t, s.file, origin.URL, fmt.Sprintf("listen: [{address: \"127.0.0.1:0\"}]\nadmin: {address: \"127.0.0.1:0\"}\ncache: {dir: %q, dir_size: 64MiB}", s.folder))
	return s
}

// answer is the origin. Pages of /tagged have the name of their directory as a tag.
func (s *shelf) answer(w http.ResponseWriter, r *http.Request) {
	page := strings.TrimSpace(r.URL.Path + " " + r.Header.Get("Accept-Language"))
	s.mu.Lock()
	s.calls[page]++
	n := s.calls[page]
	s.mu.Unlock()
	w.Header().Set("Cache-Control", "max-age=3600")
	w.Header().Set("Vary", "Accept-Language")
	if tag, ok := strings.CutPrefix(filepath.Dir(r.URL.Path), "/tagged/"); ok {
		w.Header().Set("Cache-Tag", "tagged, "+tag)
	}
	_, _ = io.WriteString(w, shelved(page, n)) // read notices if it is cut off
}

// shelved returns the response to the nth call for a page. It has several blocks, and
// a few of them fill a segment; large ones are sent from the disk and never move to
// memory.
func shelved(page string, n int) string {
	size := 90_000
	if strings.HasPrefix(page, "/large") {
		size = 700_000
	}
	unit := fmt.Sprintf("call %d for %s\n", n, page)
	return strings.Repeat(unit, size/len(unit))
}

func (s *shelf) callsFor(page string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[page]
}

// read requests a page, and returns the number of the call whose response it gets.
func (s *shelf) read(page string) (n int) {
	s.t.Helper()
	path, language, _ := strings.Cut(page, " ")
	r, err := http.NewRequest(http.MethodGet, s.p.listen[0]+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Host = "shop.example"
	if language != "" {
		r.Header.Set("Accept-Language", language)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	_, _ = fmt.Sscanf(string(b), "call %d for", &n) // without it, the comparison fails
	if err != nil || resp.StatusCode != http.StatusOK || string(b) != shelved(page, n) {
		s.t.Fatalf("%s = %d, %d bytes, %v; want the complete response to one call", page, resp.StatusCode, len(b), err)
	}
	return n
}

// start starts a program with the folder.
func (s *shelf) start(program string) {
	s.t.Helper()
	s.p = runProgram(s.t, program, nil, "proxy", "--config", s.file).ready()
}

// stop waits until everything is written, and ends the program.
func (s *shelf) stop(sig syscall.Signal) {
	s.t.Helper()
	for page, n := range s.stored { // what can be read again is in the queue, or written
		until(s.t, page+" is stored", func() bool { return s.read(page) == n })
	}
	until(s.t, "the responses are written", func() bool {
		var stats struct {
			Cache struct {
				Folder *struct{ Queued int }
			}
		}
		if err := json.Unmarshal([]byte(get(s.p.admin+"/stats").body), &stats); err != nil || stats.Cache.Folder == nil {
			s.t.Fatalf("/stats shows no folder: %v", err)
		}
		return stats.Cache.Folder.Queued == 0
	})
	s.p.signal(sig)
	if sig == syscall.SIGTERM {
		s.p.ends(0)
	}
	<-s.p.exited
}

// check reads all pages from a program that has just started. What is stored must
// come from the folder, or, without warm, from the origin. What is gone must come
// from the origin.
func (s *shelf) check(warm bool) {
	s.t.Helper()
	for _, page := range slices.Sorted(maps.Keys(s.stored)) {
		want := s.stored[page]
		if !warm {
			want = s.callsFor(page) + 1
		}
		if got := s.read(page); got != want {
			s.t.Errorf("after the start, %s is the response to call %d; want %d", page, got, want)
		}
	}
	for _, page := range slices.Sorted(maps.Keys(s.gone)) {
		want := s.callsFor(page) + 1
		if got := s.read(page); got != want {
			s.t.Errorf("after the start, %s is the response to call %d, and the one to call %d was purged; want %d", page, got, s.gone[page], want)
		}
	}
	for page := range s.gone {
		delete(s.gone, page)
		s.stored[page] = s.callsFor(page)
	}
	for page := range s.stored {
		s.stored[page] = s.callsFor(page)
	}
}

// work stores pages, and purges some: new ones, and what the program before has stored.
func (s *shelf) work(step int) {
	s.t.Helper()
	names := []string{"/large/%d", "/tagged/one/%d", "/tagged/two/%d", "/languages/%d de", "/languages/%d en", "/replaced/%d", "/expired/%d", "/purged/%d"}
	for i := range 10 {
		names = append(names, "/page/%d/"+strconv.Itoa(i))
	}
	for _, name := range names {
		page := fmt.Sprintf(name, step)
		s.stored[page] = s.read(page)
	}
	s.purge(fmt.Sprintf(`{"url": "http://shop.example/purged/%d"}`, step), fmt.Sprintf("/purged/%d", step))
	s.purge(fmt.Sprintf(`{"url": "http://shop.example/expired/%d", "expire": true}`, step), fmt.Sprintf("/expired/%d", step))
	s.purge(`{"tags": ["one"]}`, "/tagged/one/")
	if step > 0 { // what the other version has stored
		s.purge(fmt.Sprintf(`{"url": "http://shop.example/page/%d/1"}`, step-1), fmt.Sprintf("/page/%d/1", step-1))
		s.purge(fmt.Sprintf(`{"url": "http://shop.example/languages/%d"}`, step-1), fmt.Sprintf("/languages/%d ", step-1))
		s.purge(fmt.Sprintf(`{"url": "http://shop.example/large/%d"}`, step-1), fmt.Sprintf("/large/%d", step-1))
	}
	if step == 2 {
		s.purge(`{"all": true}`, "/")
	}
	for i := range step + 1 { // the newest response must win over those before it
		page := fmt.Sprintf("/replaced/%d", i)
		s.purge(fmt.Sprintf(`{"url": "http://shop.example%s"}`, page), page)
		delete(s.gone, page)
		s.stored[page] = s.read(page)
	}
}

// purge sends an order, which removes the pages whose names begin with prefix.
func (s *shelf) purge(order, prefix string) {
	s.t.Helper()
	resp, err := http.Post(s.p.admin+"/purge", "application/json", strings.NewReader(order))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("purge %s = %d; want 200", order, resp.StatusCode)
	}
	for page, n := range s.stored {
		if strings.HasPrefix(page, prefix) {
			delete(s.stored, page)
			s.gone[page] = n
		}
	}
}

func (s *shelf) names(pattern string) []string {
	s.t.Helper()
	names, err := filepath.Glob(filepath.Join(s.folder, pattern))
	if err != nil || len(names) == 0 {
		s.t.Fatalf("the folder has no %s, %v", pattern, err)
	}
	return names
}

// format returns the numbers of the formats that a program writes: that of the files,
// and that of the head of a response, which is read only if that of the files is 1.
func (s *shelf) format(program string) string {
	s.t.Helper()
	s.start(program)
	s.stored["/"] = s.read("/")
	s.stop(syscall.SIGTERM)
	b, err := os.ReadFile(s.names("*.segment")[0])
	if err != nil || len(b) < 96 {
		s.t.Fatalf("the segment has %d bytes, %v", len(b), err)
	}
	files := binary.LittleEndian.Uint32(b[8:])
	if files != 1 {
		return fmt.Sprint(files)
	}
	r := b[32:] // the record; internal/disk has its layout
	blocks := (binary.LittleEndian.Uint32(r[16:]) + 65535) / 65536
	head := 64 + uint32(binary.LittleEndian.Uint16(r[58:]))*16 + binary.LittleEndian.Uint32(r[60:]) + blocks*4
	if int64(head) >= int64(len(r)) {
		s.t.Fatal("the files have the number of format 1, and another layout")
	}
	return fmt.Sprint(files, " with head ", r[head])
}
