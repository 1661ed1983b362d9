package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// shopOrigin is an origin whose responses can be stored.
func shopOrigin(t *testing.T) (url string, calls *atomic.Int64) {
	calls = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.Header().Set("Cache-Control", "max-age=3600")
		fmt.Fprint(w, "the page ", r.URL.Path)
	}))
	t.Cleanup(s.Close)
	return s.URL, calls
}

// page requests a page of shop.example, whatever the proxy's port is.
func page(t *testing.T, p *process, path string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, p.listen[0]+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "shop.example"
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "the page "+path {
		t.Errorf("%s = %d %q, %v", path, resp.StatusCode, b, err)
	}
}

// A proxy that was killed starts with the responses that it had, without those that
// were purged. Two proxies cannot have one folder. A reload does not change it.
func TestH28_AKilledProxyStartsWarm(t *testing.T) {
	url, calls := shopOrigin(t)
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "weir.yaml"), filepath.Join(dir, "cache")
	config(t, file, url, fmt.Sprintf("listen: [{address: \"127.0.0.1:0\"}]\nadmin: {address: \"127.0.0.1:0\"}\ncache: {dir: %q, dir_size: 64MiB}", folder))
	p := start(t, "--config", file)
	for i := range 50 {
		page(t, p, fmt.Sprint("/", i))
	}
	for i := range 10 {
		if status, text := purgedURL(t, p.admin, fmt.Sprint("http://shop.example/", i)); status != http.StatusOK {
			t.Fatalf("the purge is %d: %s", status, text)
		}
	}
	second := run(t, nil, "proxy", "--config", file)
	second.ends(2)
	if text := second.stderr(); !strings.Contains(text, "cache.dir: "+folder+" is in use by another process") {
		t.Errorf("a second proxy with the folder: %s", text)
	}
	until(t, "the responses are written", func() bool {
		var stats struct {
			Cache struct {
				Folder struct{ Queued, Responses int }
			}
		}
		if err := json.Unmarshal([]byte(get(p.admin+"/stats").body), &stats); err != nil {
			t.Fatal(err)
		}
		return stats.Cache.Folder.Queued == 0 && stats.Cache.Folder.Responses == 40
	})
	p.signal(os.Kill)
	<-p.exited

	calls.Store(0)
	p = start(t, "--config", file)
	p.await(`"msg":"the cache folder is open"`, 1)
	for i := 10; i < 50; i++ {
		page(t, p, fmt.Sprint("/", i))
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("the origin was called %d times for stored pages; want 0", n)
	}
	for i := range 10 {
		page(t, p, fmt.Sprint("/", i))
	}
	if n := calls.Load(); n != 10 {
		t.Errorf("the origin was called %d times for purged pages; want 10", n)
	}
	if text := get(p.admin + "/metrics").body; !strings.Contains(text, "weir_folder_hits_total 40") {
		t.Errorf("/metrics has no weir_folder_hits_total 40")
	}
	config(t, file, url, "listen: [{address: \"127.0.0.1:0\"}]\nadmin: {address: \"127.0.0.1:0\"}")
	p.signal(syscall.SIGHUP)
	p.await("cache.dir", 1)
	p.signal(os.Interrupt)
	p.ends(0)
}

// A folder that cannot be used is a fault of the configuration.
func TestH28_AFolderThatCannotBeUsed(t *testing.T) {
	url, _ := shopOrigin(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "weir.yaml")
	config(t, file, url, fmt.Sprintf("listen: [{address: \"127.0.0.1:0\"}]\ncache: {dir: %q}", file))
	p := run(t, nil, "proxy", "--config", file)
	p.ends(2)
	if text := p.stderr(); !strings.Contains(text, "cache.dir") || !strings.Contains(text, file) {
		t.Errorf("a file as the folder: %s; want an error with cache.dir", text)
	}
}

// purgedURL purges a URL.
func purgedURL(t *testing.T, admin, url string) (status int, text string) {
	t.Helper()
	resp, err := http.Post(admin+"/purge", "application/json", strings.NewReader(fmt.Sprintf(`{"url": %q}`, url)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}
