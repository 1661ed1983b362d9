package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed assets
var embedded embed.FS

// contentTypes of the assets. The system's table is not used, because it differs
// between machines.
var contentTypes = map[string]string{
	".css":   "text/css; charset=utf-8",
	".html":  "text/html; charset=utf-8",
	".js":    "text/javascript; charset=utf-8",
	".json":  "application/json",
	".map":   "application/json",
	".png":   "image/png",
	".svg":   "image/svg+xml",
	".woff2": "font/woff2",
}

// built returns the embedded assets, which are prepared on first use.
var built = sync.OnceValue(newPage)

// A page is the set of assets for the browser. It never changes while the program
// runs.
type page struct {
	files map[string]file // by path below assets
}

// A file is one asset.
type file struct {
	body   []byte
	kind   string // its content type
	digest string // of its body
}

func newPage() *page {
	p := &page{files: map[string]file{}}
	_ = fs.WalkDir(embedded, "assets", func(name string, d fs.DirEntry, err error) error { // embedded files can always be read
		if err != nil || d.IsDir() {
			return err
		}
		body, err := embedded.ReadFile(name)
		p.files[strings.TrimPrefix(name, "assets/")] = newFile(name, body)
		return err
	})
	for _, name := range []string{"index.html", "login.html"} {
		if f, ok := p.files[name]; ok {
			p.files[name] = newFile(name, p.dated(f.body))
		}
	}
	return p
}

func newFile(name string, body []byte) file {
	sum := sha256.Sum256(body)
	kind, ok := contentTypes[path.Ext(name)]
	if !ok {
		kind = "text/plain; charset=utf-8"
	}
	return file{body, kind, base64.RawURLEncoding.EncodeToString(sum[:12])}
}

// dated adds a file's digest to each reference to it. The URL changes with the file,
// so a browser can cache the file permanently.
func (p *page) dated(html []byte) []byte {
	for name, f := range p.files {
		html = bytes.ReplaceAll(html, []byte(`"assets/`+name+`"`), []byte(`"assets/`+name+`?v=`+f.digest+`"`))
	}
	return html
}

// index responds with the page.
func (p *page) index(w http.ResponseWriter, _ *http.Request) {
	f := p.files["index.html"]
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", f.kind)
	_, _ = w.Write(f.body) // the client may be gone
}

// asset serves a file by its name.
func (p *page) asset(w http.ResponseWriter, r *http.Request) { p.serve(w, r, r.PathValue("file")) }

// serve responds with a file. The browser caches it permanently if the URL has its
// digest. It revalidates any other, such as a module that another one imports, each
// time.
func (p *page) serve(w http.ResponseWriter, r *http.Request, name string) {
	f, ok := p.files[name]
	if !ok || path.Ext(name) == ".html" {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("ETag", `"`+f.digest+`"`)
	h.Set("Cache-Control", "private, no-cache")
	if r.URL.Query().Get("v") == f.digest {
		h.Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
}
