package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed assets
var embedded embed.FS

// contentTypes of what there is. The system's table of them is not asked, as it
// differs from machine to machine.
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

// built is what is built in, made ready when it is first needed.
var built = sync.OnceValue(newPage)

// A page is what the browser is given: it never changes while the program runs.
type page struct {
	files map[string]file // by path below assets
	login *template.Template
}

// A file is one part of it.
type file struct {
	body   []byte
	kind   string // its content type
	digest string // of its body
}

func newPage() *page {
	p := &page{files: map[string]file{}}
	_ = fs.WalkDir(embedded, "assets", func(name string, d fs.DirEntry, err error) error { // what is built in can be read
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
	p.login = template.Must(template.New("login").Parse(string(p.files["login.html"].body)))
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

// dated adds to each reference to a file the digest of that: it is another one
// when the file is, so a browser may keep what it has got for good.
func (p *page) dated(html []byte) []byte {
	for name, f := range p.files {
		html = bytes.ReplaceAll(html, []byte(`"assets/`+name+`"`), []byte(`"assets/`+name+`?v=`+f.digest+`"`))
	}
	return html
}

// index answers with the page.
func (p *page) index(w http.ResponseWriter, _ *http.Request) {
	f := p.files["index.html"]
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", f.kind)
	_, _ = w.Write(f.body) // a client that has gone needs no answer
}

// asset serves a file by its name.
func (p *page) asset(w http.ResponseWriter, r *http.Request) { p.serve(w, r, r.PathValue("file")) }

// serve answers with a file. The browser keeps one whose name has its digest; it
// validates any other, such as a module that another names, each time.
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
