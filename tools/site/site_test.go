package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// checkout is the root of the repository.
var checkout = os.DirFS("../..")

// Every page of docs/ is in the site, in the index of the search, and every link of the
// site leads to a file of it, and to an ID that this file has.
func TestSiteOfTheDocumentation(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	n, err := build(checkout, out)
	if err != nil {
		t.Fatal(err)
	}
	files := contentsOf(t, out)
	index := string(files["assets/index.js"])
	pages := 0
	err = fs.WalkDir(checkout, "docs", func(name string, e fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".md" {
			return err
		}
		pages++
		if files[htmlName(name)] == nil {
			t.Errorf("%s has no page in the site", name)
		}
		if !strings.Contains(index, `"`+htmlName(name)) {
			t.Errorf("%s is not in the index of the search", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 200 || n <= pages {
		t.Errorf("%d pages, %d of them under docs; is this test looking?", n, pages)
	}
	checkLinks(t, files)
}

// checkLinks follows each link, picture, style and script of the site.
func checkLinks(t *testing.T, files map[string][]byte) {
	t.Helper()
	reference := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	ids := map[string]map[string]bool{}
	for name, content := range files {
		ids[name] = map[string]bool{}
		for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllSubmatch(content, -1) {
			ids[name][string(m[1])] = true
		}
	}
	n := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) != ".html" {
			continue
		}
		for _, m := range reference.FindAllSubmatch(files[name], -1) {
			to := string(m[1])
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			n++
			file, id, _ := strings.Cut(to, "#")
			at := name
			if file != "" {
				at = path.Join(path.Dir(name), file)
			}
			switch {
			case strings.HasPrefix(to, "/"):
				t.Errorf("%s: %s depends on where the site is", name, to)
			case files[at] == nil:
				t.Errorf("%s: %s leads to no file of the site", name, to)
			case id != "" && !ids[at][id]:
				t.Errorf("%s: %s leads to no heading", name, to)
			}
		}
	}
	if n < 10000 {
		t.Errorf("%d links; is this test looking?", n)
	}
}

func contentsOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	tree := os.DirFS(dir)
	err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if files[name], err = fs.ReadFile(tree, name); files[name] == nil {
				files[name] = []byte{}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// small returns a repository with one page more than the required ones.
func small(page string) fstest.MapFS {
	return fstest.MapFS{
		"README.md":           {Data: []byte("# Weir\n")},
		"docs/README.md":      {Data: []byte("# Pages\n\n## Start\n\n- [First](howto/first.md)\n")},
		"docs/howto/first.md": {Data: []byte(page)},
		"docs/x.svg":          {Data: []byte("<svg/>")},
		"app/main.go":         {Data: []byte("package main\n")},
		"LICENSE":             {Data: []byte("free\n")},
	}
}

func TestSiteRendersAPage(t *testing.T) {
	s, err := load(small("# First & last\n\nSee [the start](../../README.md#weir), [code](../../app/main.go), [here](#a-part-of-it), " +
		"![a picture](../x.svg)\n\n<!-- const x.Y -->\n## A `part`, of it\n\n| a | b |\n|---|---|\n| 1<!-- figure --> | 2 |\n\n## A `part`, of it\n"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := s.files()
	if err != nil {
		t.Fatal(err)
	}
	page := string(files["docs/howto/first.html"])
	for _, want := range []string{
		"<title>First &amp; last · weir</title>",
		`href="../../index.html#weir"`,
		`href="` + source + `app/main.go"`,
		`href="#a-part-of-it"`, `<h2 id="a-part-of-it">`, `<h2 id="a-part-of-it-1">`,
		`src="../../docs/x.svg"`,
		`<div class="wide"><table>`, "<td>1</td>",
		`<a href="../../docs/howto/first.html" aria-current="page">First &amp; last</a>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s:\n%s", want, page)
		}
	}
	if strings.Contains(page, "<!--") {
		t.Error("the page still has the comments of the Markdown")
	}
	if files["docs/x.svg"] == nil {
		t.Error("the picture is not in the site")
	}
	index := bytes.TrimSuffix(bytes.TrimPrefix(files["assets/index.js"], []byte("window.weirIndex = ")), []byte(";\n"))
	var entries []struct{ P, H, U, T string }
	if err := json.Unmarshal(index, &entries); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(entries, func(e struct{ P, H, U, T string }) bool { return e.U == "docs/howto/first.html#a-part-of-it" })
	if i < 0 || entries[i].H != "A part, of it" || entries[i].T != "a b 1 2" {
		t.Errorf("the index has %+v; want the part, with the text of its table", entries)
	}
}

func TestSiteRefusesBrokenPages(t *testing.T) {
	for page, want := range map[string]string{
		"# A\n\n[no file](none.md)\n":                          "none.md",
		"# A\n\n[no heading](../README.md#none)\n":             `no heading "#none"`,
		"# A\n\n[no heading](#none)\n":                         `no heading "#none"`,
		"# A\n\n[outside](../../../x.md)\n":                    "leaves the repository",
		"# A\n\n![no picture](none.png)\n":                     "none.png",
		"No heading.\n":                                        "no heading at its start",
		"# A\n\n[one](one.md) and [two](two.md) are missing\n": "two.md",
	} {
		if _, err := load(small(page)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("load(%q) = %v; want an error with %s", page, err, want)
		}
	}
}

// A folder with other files is not replaced; an earlier site is.
func TestSiteKeepsForeignFolders(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := build(small("# A\n"), dir); err == nil || !strings.Contains(err.Error(), "no earlier site") {
		t.Errorf("build into a folder with a file = %v; want an error", err)
	}
	out := filepath.Join(t.TempDir(), "site")
	for range 2 {
		if _, err := build(small("# A\n"), out); err != nil {
			t.Fatal(err)
		}
	}
}
