package assets_test

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const assets = "../assets"

// files returns the files in the folder, by path.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path.Join(folder, name))
		all[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// own returns the page's files, without vendored ones.
func own(t *testing.T) map[string]string {
	t.Helper()
	all := files(t, assets)
	for name := range all {
		if strings.HasPrefix(name, "vendor/") {
			delete(all, name)
		}
	}
	return all
}

// node returns a command that runs node, from WEIR_TEST_NODE or PATH. Without node it
// skips the test, or fails it where engines are required and node is not excluded.
func node(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	file, err := exec.LookPath(cmp.Or(os.Getenv("WEIR_TEST_NODE"), "node"))
	without := strings.Split(os.Getenv("WEIR_TEST_WITHOUT"), ",")
	switch {
	case err == nil:
	case os.Getenv("WEIR_TEST_ENGINES") == "required" && !slices.Contains(without, "node"):
		t.Fatalf("WEIR_TEST_ENGINES=required, but node is missing: %v", err)
	default:
		t.Skipf("WITHOUT node, which Debian has in the package nodejs: %v", err)
	}
	return exec.CommandContext(t.Context(), file, args...)
}

// The scripts' own tests, run by node. The files are read here first, so that the
// test cache depends on them.
func TestScripts(t *testing.T) {
	files(t, assets)
	files(t, ".")
	cmd := node(t, "--test", ".")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("node --test: %v\n%s", err, out)
	}
	if m := regexp.MustCompile(`(?m)^\S+ pass (\d+)$`).FindSubmatch(out); m == nil || string(m[1]) == "0" {
		t.Errorf("node --test ran no tests:\n%s", out)
	}
}

// C3: the page's policy allows only scripts and styles from files, and nothing from
// other hosts. Markup is never built from text, so data cannot become markup.
func TestC3_PagesKeepToTheirPolicy(t *testing.T) {
	rules := []struct {
		in   string // the suffix of file names
		what *regexp.Regexp
		why  string
	}{
		{".html", regexp.MustCompile(`(?i)<script(?:\s[^>]*)?>\s*[^<\s]`), "a script in the page"},
		{".html", regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|javascript:`), "a style or a listener in the page"},
		{".html", regexp.MustCompile(`(?i)(?:src|href|action)="(?:[a-z]+:|//)`), "something from another host"},
		{".css", regexp.MustCompile(`(?i)url\(|@import`), "something that is loaded"},
		{".js", regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment`), "markup built from text"},
		{".js", regexp.MustCompile(`\beval\(|new Function|setTimeout\(['"]|setAttribute\('style'|\bstyle:`), "what the policy forbids"},
		{".js", regexp.MustCompile(`(?:fetch|EventSource|import|assign|open)\(\s*['"` + "`" + `](?:[a-z]+:|/)`), "a request to another host"},
		{".js", regexp.MustCompile(`\bconsole\.[a-z]|\bdebugger\b`), "output to the browser's console"},
	}
	for name, body := range own(t) {
		for _, r := range rules {
			if m := r.what.FindString(body); strings.HasSuffix(name, r.in) && m != "" {
				t.Errorf("%s contains %q: %s", name, m, r.why)
			}
		}
	}
}

// C12: the series of charts have no green in either theme, and during an outage the colors
// of what is good are those of plain text.
func TestC12_NothingIsGreenInAnOutage(t *testing.T) {
	css := own(t)["css/base.css"]
	series := regexp.MustCompile(`(--c-[a-z0-9-]+): #([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2});`).FindAllStringSubmatch(css, -1)
	if len(series) < 30 {
		t.Fatalf("%d colors of series; want those of both themes", len(series))
	}
	for _, m := range series {
		var rgb [3]int64
		for i := range rgb {
			rgb[i], _ = strconv.ParseInt(m[i+2], 16, 32)
		}
		if r, g, b := rgb[0], rgb[1], rgb[2]; g > r+r/4 && g > b+b/8 {
			t.Errorf("%s is green: #%s%s%s", m[1], m[2], m[3], m[4])
		}
	}
	if !strings.Contains(css, "body.is-outage { --good: var(--ink-2); --good-bg: var(--sunk); }") {
		t.Error("base.css does not replace --good and --good-bg during an outage")
	}
}

func TestReferencesResolve(t *testing.T) {
	all := files(t, assets)
	inHTML := regexp.MustCompile(`"assets/([^"]+)"`)
	inScript := regexp.MustCompile(`(?m)(?:from|import) '\./([^']+)'`)
	for name, body := range own(t) {
		var wanted []string
		switch path.Ext(name) {
		case ".html":
			for _, m := range inHTML.FindAllStringSubmatch(body, -1) {
				wanted = append(wanted, m[1])
			}
		case ".js":
			for _, m := range inScript.FindAllStringSubmatch(body, -1) {
				wanted = append(wanted, path.Join(path.Dir(name), m[1]))
			}
		}
		for _, w := range wanted {
			if _, ok := all[w]; !ok {
				t.Errorf("%s refers to %s, which does not exist", name, w)
			}
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	const most = 500
	for name, body := range own(t) {
		if n := strings.Count(body, "\n"); n > most {
			t.Errorf("%s has %d lines; want at most %d", name, n, most)
		}
	}
}

// Vendored files are unmodified: their README has the digests.
func TestVendoredFilesAreUnaltered(t *testing.T) {
	all := files(t, path.Join(assets, "vendor"))
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|.*\\| `([0-9a-f]{64})` \\|$").FindAllStringSubmatch(all["README.md"], -1)
	listed := map[string]bool{"README.md": true, "uPlot.LICENSE": true}
	for _, m := range rows {
		listed[m[1]] = true
		if got := fmt.Sprintf("%x", sha256.Sum256([]byte(all[m[1]]))); got != m[2] {
			t.Errorf("digest of %s = %s; the README has %s", m[1], got, m[2])
		}
	}
	for name := range all {
		if !listed[name] {
			t.Errorf("vendor/%s is not in its README", name)
		}
	}
}
