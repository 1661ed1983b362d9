// Command site writes the documentation as a static site with search, from the Markdown
// files that the repository has:
//
//	go run ./tools/site -o site
//
// The site keeps the paths of the repository, with .html instead of .md, so every link
// between pages stays as it is written. It uses relative links only and loads its search
// index with a script element, so it works from a folder (file://) and from any web server.
// A link that leads nowhere is an error.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
)

func main() {
	root := flag.String("root", ".", "the checkout of weir")
	out := flag.String("o", "site", "the folder to write; it is created, and must be empty or contain a site")
	flag.Parse()
	n, err := build(os.DirFS(*root), *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("site: %d pages; open %s\n", n, filepath.Join(*out, "index.html"))
}

// mark is a file that says that a folder contains a site, so that build may replace it.
const mark = ".weir-site"

// build writes the site of a checkout into a folder, and returns the number of its pages.
func build(repo fs.FS, out string) (int, error) {
	if err := clear(out); err != nil {
		return 0, err
	}
	s, err := load(repo)
	if err != nil {
		return 0, err
	}
	files, err := s.files()
	if err != nil {
		return 0, err
	}
	for name, content := range files {
		if err := write(out, name, content); err != nil {
			return 0, err
		}
	}
	return len(s.pages), nil
}

// clear removes an earlier site. It refuses a folder with anything else.
func clear(out string) error {
	entries, err := os.ReadDir(out)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == mark }) {
		return fmt.Errorf("%s is not empty and contains no earlier site; want another folder", out)
	}
	return os.RemoveAll(out)
}

func write(out, name string, content []byte) error {
	file := filepath.Join(out, filepath.FromSlash(path.Clean(name)))
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o666)
}
