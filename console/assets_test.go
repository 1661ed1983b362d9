package console_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/console"
)

// assetFiles returns the embedded files, by path below assets.
func assetFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS("assets"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile("assets/" + name)
		files[name] = string(b)
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d assets, %v; want some", len(files), err)
	}
	return files
}

func TestAssets(t *testing.T) {
	c := newConsole(t, console.Options{})
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".LICENSE": "text/plain; charset=utf-8", ".md": "text/plain; charset=utf-8"}
	for name, body := range assetFiles(t) {
		got := get("/assets/" + name).on(c)
		if path.Ext(name) == ".html" {
			if got.Code != 404 {
				t.Errorf("%s: %d; want 404, as pages are not assets", name, got.Code)
			}
			continue
		}
		h := got.Header()
		if want := kinds[path.Ext(name)]; got.Code != 200 || got.Body.String() != body || h.Get("Content-Type") != want || want == "" {
			t.Errorf("%s: %d, %s, %d bytes; want 200, %s, %d bytes", name, got.Code, h.Get("Content-Type"), got.Body.Len(), want, len(body))
		}
		if h.Get("Cache-Control") != "private, no-cache" {
			t.Errorf("%s: Cache-Control %q; want it revalidated each time", name, h.Get("Cache-Control"))
		}
		again := call{target: "/assets/" + name, header: map[string]string{"If-None-Match": h.Get("ETag")}}.on(c)
		if again.Code != 304 || again.Body.Len() > 0 {
			t.Errorf("%s, cached by the browser: %d; want 304", name, again.Code)
		}
		digest := strings.Trim(h.Get("ETag"), `"`)
		if got := get("/assets/" + name + "?v=" + digest).on(c).Header().Get("Cache-Control"); got != "private, max-age=31536000, immutable" {
			t.Errorf("%s with its digest: Cache-Control %q; want it cached", name, got)
		}
		if got := get("/assets/" + name + "?v=old").on(c).Header().Get("Cache-Control"); got != "private, no-cache" {
			t.Errorf("%s with another digest: Cache-Control %q; want it revalidated", name, got)
		}
	}
	for _, target := range []string{"/assets/", "/assets/none", "/assets/css", "/assets/..%2fassets.go", "/assets/%2e%2e/assets.go"} {
		if got := get(target).on(c); got.Code != 404 && got.Code != 301 && got.Code != 307 {
			t.Errorf("%s: %d; want 404 or a redirect", target, got.Code)
		}
	}
}

// The page refers to its files by digest, and all of them exist.
func TestPageNamesItsFilesByDigest(t *testing.T) {
	c := newConsole(t, console.Options{})
	got := get("/").on(c)
	if got.Header().Get("Cache-Control") != "no-store" || got.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("the page: %v; want HTML that is not cached", got.Header())
	}
	refs := regexp.MustCompile(`(?:src|href)="(assets/[^"]*)"`).FindAllStringSubmatch(got.Body.String(), -1)
	if len(refs) == 0 {
		t.Error("the page refers to no files")
	}
	for _, ref := range refs {
		file := get("/" + ref[1]).on(c)
		if file.Code != 200 || !strings.HasSuffix(file.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v; want it to exist and be cached", ref[1], file.Code, file.Header())
		}
	}
}

// Nothing is loaded from other hosts, and nothing needs more than the policy allows.
func TestC3_PagesKeepToThePolicy(t *testing.T) {
	rules := map[string]map[string]*regexp.Regexp{
		".html": {
			"a file from elsewhere": regexp.MustCompile(`(?i)(?:src|href|action)\s*=\s*["']?\s*(?:[a-z][a-z0-9+.-]*:|/)`),
			"a script in the page":  regexp.MustCompile(`(?is)<script\b[^>]*>[^<]+</script`),
			"a style in the page":   regexp.MustCompile(`(?i)<style\b|\sstyle\s*=`),
			"a handler in the page": regexp.MustCompile(`(?i)\son[a-z]+\s*=`),
		},
		".css": {
			"a file from elsewhere": regexp.MustCompile(`(?i)@import|url\(\s*["']?(?:[a-z][a-z0-9+.-]*:|/)`),
		},
		".js": {
			"a module from elsewhere": regexp.MustCompile(`(?:from|import)\s*\(?\s*["'](?:[a-z]+:|/)`),
			"what eval is":            regexp.MustCompile(`\beval\s*\(|new Function\b`),
			"a style in HTML":         regexp.MustCompile(`setAttribute\(\s*["']style["']`),
		},
	}
	for name, body := range assetFiles(t) {
		for what, rule := range rules[path.Ext(name)] {
			if found := rule.FindString(body); found != "" {
				t.Errorf("%s has %s: %.80s", name, what, found)
			}
		}
	}
}
