package jcs

import (
	"fmt"
	"strings"
)

// A Plan says which values of a text are ignored, and which are wanted. It can be used
// concurrently. A nil Plan ignores and wants nothing.
type Plan struct {
	root   *node
	wanted int
}

// A node is what a Plan says about one value.
type node struct {
	children map[string]*node // by name, or by index
	ignore   bool
	wants    int // its index in Form.Found, negative if it is not wanted
}

// NewPlan returns a Plan. ignore and want are JSON pointers (RFC 6901). An ignored
// value is left out of its object or array. A wanted value may be part of an ignored
// one. Found has the wanted values in the order of want.
func NewPlan(ignore, want []string) (*Plan, error) {
	p := &Plan{root: newNode(), wanted: len(want)}
	for _, text := range ignore {
		n, err := p.at(text)
		if err != nil {
			return nil, err
		}
		if n == p.root {
			return nil, fmt.Errorf("jcs: pointer %q: the whole text cannot be ignored", text)
		}
		n.ignore = true
	}
	for i, text := range want {
		n, err := p.at(text)
		if err != nil {
			return nil, err
		}
		if n.wants >= 0 {
			return nil, fmt.Errorf("jcs: pointer %q is there twice", text)
		}
		n.wants = i
	}
	return p, nil
}

func newNode() *node { return &node{wants: -1} }

// maxPointer bounds a pointer, in tokens: a value below is nested too deeply for a
// form.
const maxPointer = MaxDepth

// at returns the node of a pointer.
func (p *Plan) at(pointer string) (*node, error) {
	tokens, err := Tokens(pointer)
	if err != nil {
		return nil, err
	}
	n := p.root
	for _, token := range tokens {
		next := n.children[token]
		if next == nil {
			next = newNode()
			if n.children == nil {
				n.children = make(map[string]*node)
			}
			n.children[token] = next
		}
		n = next
	}
	return n, nil
}

// Tokens splits a JSON pointer into its tokens.
func Tokens(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if pointer[0] != '/' {
		return nil, fmt.Errorf("jcs: pointer %q does not begin with /", pointer)
	}
	tokens := strings.Split(pointer[1:], "/")
	if len(tokens) > maxPointer {
		return nil, fmt.Errorf("jcs: pointer %q has more than %d parts", pointer, maxPointer)
	}
	for i, token := range tokens {
		for rest := token; ; {
			j := strings.IndexByte(rest, '~')
			if j < 0 {
				break
			}
			if rest = rest[j+1:]; rest == "" || rest[0] != '0' && rest[0] != '1' {
				return nil, fmt.Errorf("jcs: pointer %q has a ~ that is not ~0 or ~1", pointer)
			}
		}
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	return tokens, nil
}

// child returns the node of the member with that name, or nil.
func (n *node) child(name string) *node {
	if n == nil {
		return nil
	}
	return n.children[name]
}

func (n *node) ignored() bool { return n != nil && n.ignore }
