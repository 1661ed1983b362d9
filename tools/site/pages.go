package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

const (
	source    = "https://github.com/weir-go/weir/blob/main/" // where files that are no part of the site are read
	frontPage = "README.md"                                  // it becomes index.html
	contents  = "docs/README.md"                             // its lists become the menu
	decisions = "docs/adr"                                   // the only folder whose list of pages is generated
)

// A page is a Markdown file of the site.
type page struct {
	name     string // from the root, with slashes
	title    string
	text     []byte
	doc      ast.Node
	anchors  []string
	sections []section // for the search
}

// A site is all pages, and the other files that they link to.
type site struct {
	repo     fs.FS
	pages    map[string]*page
	assets   map[string]bool // files that are copied
	menu     []group
	markdown goldmark.Markdown
	faults   []error
}

// load reads and parses every page.
func load(repo fs.FS) (*site, error) {
	s := &site{repo: repo, pages: map[string]*page{}, assets: map[string]bool{}, markdown: goldmark.New(
		goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(html.WithUnsafe()), // the comments of the pages; they are removed from the output
	)}
	names, err := pageNames(repo)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		p, err := s.parse(name)
		if err != nil {
			return nil, err
		}
		s.pages[name] = p
	}
	if s.pages[frontPage] == nil || s.pages[contents] == nil {
		return nil, fmt.Errorf("no %s or no %s; want the root of a checkout", frontPage, contents)
	}
	s.menu = s.menuOf(s.pages[contents])
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		s.resolve(s.pages[name])
	}
	return s, errors.Join(s.faults...)
}

// pageNames returns the pages: all under docs, and in the root.
func pageNames(repo fs.FS) ([]string, error) {
	names, err := fs.Glob(repo, "*.md")
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(repo, "docs", func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && path.Ext(name) == ".md" {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

func (s *site) parse(name string) (*page, error) {
	text_, err := fs.ReadFile(s.repo, name)
	if err != nil {
		return nil, err
	}
	p := &page{name: name, text: text_}
	p.doc = s.markdown.Parser().Parse(text.NewReader(p.text), parser.WithContext(parser.NewContext(parser.WithIDs(&anchors{p: p}))))
	p.sections = sectionsOf(p)
	if len(p.sections) > 0 {
		p.title = p.sections[0].heading
	}
	if p.title == "" {
		return nil, fmt.Errorf("%s: no heading at its start", name)
	}
	return p, nil
}

// anchors makes the IDs of headings as GitHub does, which the links in the pages use.
type anchors struct{ p *page }

var (
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Generate is of parser.IDs.
func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	base := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(linked.ReplaceAllString(string(value), "$1")), ""), " ", "-")
	id := base
	for n := 1; slices.Contains(a.p.anchors, id); n++ {
		id = fmt.Sprintf("%s-%d", base, n)
	}
	a.p.anchors = append(a.p.anchors, id)
	return []byte(id)
}

// Put is of parser.IDs.
func (a *anchors) Put(value []byte) { a.p.anchors = append(a.p.anchors, string(value)) }

// A group is a part of the menu.
type group struct {
	Title string
	Items []item
}

type item struct {
	Title, Page string
}

// menuOf returns a group for each heading of the page of contents, with the pages that its
// lists link to.
func (s *site) menuOf(p *page) []group {
	menu := []group{{"", []item{{"Overview", frontPage}, {"All pages", contents}}}}
	seen := map[string]bool{frontPage: true, contents: true}
	for n := p.doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok && h.Level == 2 {
			menu = append(menu, group{Title: plain(h, p.text)})
		}
		_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			l, ok := n.(*ast.Link)
			if !ok || !entering {
				return ast.WalkContinue, nil
			}
			name, _, _ := strings.Cut(string(l.Destination), "#")
			name = path.Join(path.Dir(p.name), name)
			if target := s.pages[name]; target != nil && !seen[name] {
				seen[name] = true
				last := &menu[len(menu)-1]
				last.Items = append(last.Items, item{target.title, name})
			}
			return ast.WalkSkipChildren, nil
		})
	}
	menu = append(menu, group{"Project", []item{{"Decisions", decisions}}})
	last := &menu[len(menu)-1]
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		if !seen[name] && path.Dir(name) != decisions {
			last.Items = append(last.Items, item{s.pages[name].title, name})
		}
	}
	return slices.DeleteFunc(menu, func(g group) bool { return len(g.Items) == 0 })
}

// htmlName returns the file of a page in the site.
func htmlName(name string) string {
	switch {
	case name == frontPage:
		return "index.html"
	case name == decisions:
		return decisions + "/index.html"
	}
	return strings.TrimSuffix(name, ".md") + ".html"
}

// files returns the content of every file of the site.
func (s *site) files() (map[string][]byte, error) {
	all := map[string][]byte{mark: nil, "assets/site.css": styles, "assets/search.js": searchScript, "assets/index.js": s.searchIndex()}
	for name, p := range s.pages {
		var body bytes.Buffer
		if err := s.markdown.Renderer().Render(&body, p.text, p.doc); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		content, err := s.dress(name, p.title, body.String())
		if err != nil {
			return nil, err
		}
		all[htmlName(name)] = content
	}
	content, err := s.dress(decisions, "Decisions", s.decisionList())
	if err != nil {
		return nil, err
	}
	all[htmlName(decisions)] = content
	for name := range s.assets {
		if all[name], err = fs.ReadFile(s.repo, name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s *site) decisionList() string {
	var b strings.Builder
	b.WriteString("<h1>Decisions</h1>\n<ul>\n")
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		if path.Dir(name) == decisions {
			fmt.Fprintf(&b, "<li><a href=%q>%s</a></li>\n", path.Base(htmlName(name)), template.HTMLEscapeString(s.pages[name].title))
		}
	}
	return b.String() + "</ul>\n"
}

//go:embed assets/page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

//go:embed assets/site.css
var styles []byte

//go:embed assets/search.js
var searchScript []byte

var (
	comments = regexp.MustCompile(`(?s)<!--.*?-->\n?`)
	tables   = regexp.MustCompile(`(?s)<table>.*?</table>`)
)

// dress puts the menu and the search around the body of a page.
func (s *site) dress(name, title, body string) ([]byte, error) {
	body = comments.ReplaceAllString(body, "")
	body = tables.ReplaceAllString(body, `<div class="wide">$0</div>`) // wide tables scroll, and the page does not
	up := strings.Repeat("../", strings.Count(htmlName(name), "/"))
	type entry struct {
		Title, URL string
		Here       bool
	}
	type part struct {
		Title string
		Open  bool
		Items []entry
	}
	var menu []part
	for _, g := range s.menu {
		m := part{Title: g.Title}
		for _, it := range g.Items {
			m.Items = append(m.Items, entry{it.Title, up + htmlName(it.Page), it.Page == name})
			m.Open = m.Open || it.Page == name
		}
		menu = append(menu, m)
	}
	edit := source + name
	if s.pages[name] == nil {
		edit = strings.Replace(edit, "/blob/", "/tree/", 1)
	}
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, map[string]any{
		"Title": title, "Up": up, "Menu": menu, "Source": edit,
		"Body": template.HTML(body), // from the repository's own Markdown
	})
	return out.Bytes(), err
}
