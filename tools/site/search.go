package main

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

// A section is the text under one heading, which the search finds as a whole.
type section struct {
	heading, anchor, text string
}

// sectionsOf splits a page at its headings.
func sectionsOf(p *page) (all []section) {
	var words []string
	flush := func() {
		if len(all) > 0 {
			all[len(all)-1].text = strings.Join(words, " ")
		}
		words = nil
	}
	for n := p.doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			flush()
			id, _ := h.AttributeString("id")
			anchor, _ := id.([]byte)
			all = append(all, section{heading: plain(h, p.text), anchor: string(anchor)})
			continue
		}
		if t := plain(n, p.text); t != "" {
			words = append(words, t)
		}
	}
	flush()
	return all
}

// plain returns the text of a node without its markup.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.HTMLBlock, *ast.RawHTML:
			return ast.WalkSkipChildren, nil
		case *ast.Text:
			if entering {
				b.Write(n.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.AutoLink:
			if entering {
				b.Write(n.Label(source))
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				for i := range n.Lines().Len() {
					line := n.Lines().At(i)
					b.Write(line.Value(source))
				}
			}
		case *ast.Paragraph, *ast.TextBlock, *extast.TableCell:
			if !entering {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// searchIndex returns the script with all sections. A script also loads from a folder,
// where a page may not fetch JSON.
func (s *site) searchIndex() []byte {
	type entry struct {
		Page    string `json:"p"` // title
		Heading string `json:"h,omitempty"`
		URL     string `json:"u"`
		Text    string `json:"t"`
		Rank    int    `json:"r"` // guides come before decisions
	}
	var all []entry
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		p := s.pages[name]
		for i, sec := range p.sections {
			e := entry{Page: p.title, URL: htmlName(name), Text: sec.text, Rank: rankOf(name)}
			if i > 0 {
				e.Heading, e.URL = sec.heading, e.URL+"#"+sec.anchor
			}
			all = append(all, e)
		}
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return slices.Concat([]byte("window.weirIndex = "), b, []byte(";\n"))
}

// rankOf returns how far behind others a page comes, for the same match.
func rankOf(name string) int {
	switch path.Dir(name) {
	case "docs/howto", "docs":
		return 0
	case decisions:
		return 2
	}
	return 1
}
