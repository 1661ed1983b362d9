package main

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// resolve changes the links and pictures of a page from the repository's files to the
// site's, and records those that lead nowhere.
func (s *site) resolve(p *page) {
	_ = ast.Walk(p.doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var to *[]byte
		switch n := n.(type) {
		case *ast.Link:
			to = &n.Destination
		case *ast.Image:
			to = &n.Destination
		default:
			return ast.WalkContinue, nil
		}
		at, err := s.target(p, string(*to), n.Kind() == ast.KindImage)
		if err != nil {
			s.faults = append(s.faults, fmt.Errorf("%s: link to %s: %w", p.name, *to, err))
		}
		*to = []byte(at)
		return ast.WalkContinue, nil
	})
}

// target returns where a link of p leads in the site: to a page, to a file that is copied,
// or to the file in the repository on the web.
func (s *site) target(p *page, link string, picture bool) (string, error) {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return link, nil
	}
	file, anchor, anchored := strings.Cut(link, "#")
	name := p.name
	if file != "" {
		name = path.Join(path.Dir(p.name), file)
	}
	if !fs.ValidPath(name) {
		return "", fmt.Errorf("it leaves the repository")
	}
	if anchored {
		anchor = "#" + anchor
	}
	info, err := fs.Stat(s.repo, name)
	if err != nil {
		return "", err
	}
	target := s.pages[name]
	switch {
	case target != nil && anchored && !slices.Contains(target.anchors, anchor[1:]):
		return "", fmt.Errorf("the page has no heading %q", anchor)
	case target != nil && file == "":
		return anchor, nil
	case target != nil || name == decisions:
		return relative(p, htmlName(name)) + anchor, nil
	case picture || path.Ext(name) == ".svg" || path.Ext(name) == ".png":
		s.assets[name] = true
		return relative(p, name), nil
	case info.IsDir():
		return strings.Replace(source, "/blob/", "/tree/", 1) + name, nil
	}
	return source + name + anchor, nil
}

// relative returns the link from a page to a file of the site.
func relative(p *page, file string) string {
	return strings.Repeat("../", strings.Count(htmlName(p.name), "/")) + file
}
