package jcs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a text.
const (
	MaxDepth   = 128     // nested arrays and objects
	MaxMembers = 1 << 16 // of all objects together
)

// ErrNoForm is matched by the error for a text without a canonical form.
var ErrNoForm = errors.New("jcs: the text has no canonical form")

// A Form is the canonical form of a text.
type Form struct {
	Text  []byte   // without the ignored fields
	Lossy bool     // a number in it is rounded
	Found [][]byte // the canonical form of each wanted value: nil if the text has none, empty if a number in it is rounded
}

// Canonical returns the canonical form of text under plan, which may be nil. An error
// matches [ErrNoForm]; it says what is wrong, and nothing that the text contains.
func Canonical(text []byte, plan *Plan) (Form, error) {
	if !utf8.Valid(text) {
		return Form{}, fail("it is not UTF-8")
	}
	p := parser{in: text, out: make([]byte, 0, len(text))}
	root := (*node)(nil)
	if plan != nil {
		root, p.found = plan.root, make([][]byte, plan.wanted)
	}
	err := p.value(root, 0)
	if err == nil {
		if p.space(); p.at < len(p.in) {
			err = fail("there is text after its end")
		}
	}
	if err != nil {
		return Form{}, err
	}
	return Form{Text: p.out, Lossy: p.lossy, Found: p.found}, nil
}

func fail(why string) error { return fmt.Errorf("%w: %s", ErrNoForm, why) }

var errSyntax = fail("it is not valid JSON")

// A parser reads a text and writes its form.
type parser struct {
	in      []byte
	at      int
	out     []byte
	lossy   bool
	members int
	found   [][]byte
}

func (p *parser) space() {
	for p.at < len(p.in) && (p.in[p.at] == ' ' || p.in[p.at] == '\t' || p.in[p.at] == '\n' || p.in[p.at] == '\r') {
		p.at++
	}
}

// next skips blanks and returns the next byte, 0 at the end.
func (p *parser) next() byte {
	if p.space(); p.at < len(p.in) {
		return p.in[p.at]
	}
	return 0
}

// value reads a value. n is what the plan says about it, or nil.
func (p *parser) value(n *node, depth int) error {
	start, lossy := len(p.out), p.lossy
	p.lossy = false
	var err error
	switch c := p.next(); {
	case depth > MaxDepth:
		return fail("it is nested too deeply")
	case c == '{':
		err = p.object(n, depth)
	case c == '[':
		err = p.array(n, depth)
	case c == '"':
		var s string
		if s, err = p.text(); err == nil {
			p.out = appendText(p.out, s)
		}
	case c == '-' || c >= '0' && c <= '9':
		err = p.number()
	default:
		err = p.word()
	}
	if err == nil && n != nil && n.wants >= 0 {
		p.found[n.wants] = []byte{}
		if !p.lossy {
			p.found[n.wants] = slices.Clone(p.out[start:])
		}
	}
	p.lossy = p.lossy || lossy
	return err
}

// word reads true, false or null.
func (p *parser) word() error {
	for _, w := range [...]string{"true", "false", "null"} {
		if len(p.in)-p.at >= len(w) && string(p.in[p.at:p.at+len(w)]) == w {
			p.at += len(w)
			p.out = append(p.out, w...)
			return nil
		}
	}
	return errSyntax
}

func (p *parser) array(n *node, depth int) error {
	p.at++
	p.out = append(p.out, '[')
	first := true
	if p.next() == ']' {
		p.at++
		p.out = append(p.out, ']')
		return nil
	}
	for i := 0; ; i++ {
		var child *node
		if n != nil && len(n.children) > 0 {
			child = n.children[strconv.Itoa(i)]
		}
		start, lossy := len(p.out), p.lossy
		if !first {
			p.out = append(p.out, ',')
		}
		if err := p.value(child, depth+1); err != nil {
			return err
		}
		if child.ignored() {
			p.out, p.lossy = p.out[:start], lossy
		} else {
			first = false
		}
		switch p.next() {
		case ',':
			p.at++
		case ']':
			p.at++
			p.out = append(p.out, ']')
			return nil
		default:
			return errSyntax
		}
	}
}

// A member is a member of an object: its name, and where its form stands in the
// output.
type member struct {
	name       string
	start, end int
	ignored    bool
}

func (p *parser) object(n *node, depth int) error {
	p.at++
	start := len(p.out)
	var all []member
	if p.next() == '}' {
		p.at++
		p.out = append(p.out, "{}"...)
		return nil
	}
	for {
		if p.next() != '"' {
			return errSyntax
		}
		name, err := p.text()
		if err != nil {
			return err
		}
		if p.members++; p.members > MaxMembers {
			return fail("it has too many members")
		}
		if p.next() != ':' {
			return errSyntax
		}
		p.at++
		m := member{name: name, start: len(p.out)}
		lossy := p.lossy
		p.out = append(appendText(p.out, name), ':')
		child := n.child(name)
		if err := p.value(child, depth+1); err != nil {
			return err
		}
		if m.end = len(p.out); child.ignored() {
			m.ignored, m.end, p.out, p.lossy = true, m.start, p.out[:m.start], lossy
		}
		all = append(all, m)
		switch p.next() {
		case ',':
			p.at++
			continue
		case '}':
			p.at++
		default:
			return errSyntax
		}
		return p.arrange(start, all)
	}
}

// alike reports whether two members have different names that are the same in another
// case. Some programs read either as the other (Go's encoding/json).
func alike(all []member) bool {
	plain := func(name string) bool {
		for i := range len(name) {
			if c := name[i]; c >= 0x80 || c >= 'A' && c <= 'Z' {
				return false
			}
		}
		return true
	}
	if len(all) < 2 || !slices.ContainsFunc(all, func(m member) bool { return !plain(m.name) }) {
		return false
	}
	seen := make(map[string]string, len(all))
	for _, m := range all {
		folded := strings.ToLower(strings.ToUpper(m.name))
		if other, ok := seen[folded]; ok && other != m.name {
			return true
		}
		seen[folded] = m.name
	}
	return false
}

// arrange writes the members of an object, which stand from start on without
// separators, in the order of their names.
func (p *parser) arrange(start int, all []member) error {
	if alike(all) {
		return fail("an object has two names that differ only in case")
	}
	slices.SortFunc(all, func(a, b member) int { return compareUTF16(a.name, b.name) })
	sorted := make([]byte, 0, len(p.out)-start+len(all)+2)
	sorted = append(sorted, '{')
	for i, m := range all {
		if i > 0 && m.name == all[i-1].name {
			return fail("an object has a name twice")
		}
		if m.ignored {
			continue
		}
		if len(sorted) > 1 {
			sorted = append(sorted, ',')
		}
		sorted = append(sorted, p.out[m.start:m.end]...)
	}
	p.out = append(append(p.out[:start], sorted...), '}')
	return nil
}
