// Package graphql tells GraphQL documents that only read from those that change
// something. It does not validate documents: that is the server's work.
package graphql

import "strings"

// OnlyQueries reports whether every operation in a document is a query. It is false for
// a document that is not understood.
func OnlyQueries(document string) bool {
	s := scanner{rest: document}
	depth, some := 0, false
	inHead := false // of a definition, before its selection set
	last := ""
	for {
		token, ok := s.next()
		if !ok {
			return false
		}
		switch token {
		case "":
			return some && depth == 0 && !inHead
		case "{", "(", "[":
			if depth == 0 && !inHead && token != "{" {
				return false
			}
			if depth == 0 && token == "{" {
				inHead, some = false, true
			}
			depth++
		case "}", ")", "]":
			if depth--; depth < 0 {
				return false
			}
		default:
			if depth > 0 {
				break
			}
			if !inHead {
				if token != "query" && token != "fragment" {
					return false
				}
				inHead = true
				break
			}
			named := last == "query" || last == "fragment" || last == "on" || last == "@"
			if (token == "mutation" || token == "subscription") && !named {
				return false
			}
		}
		last = token
	}
}

// A scanner splits a document into tokens.
type scanner struct{ rest string }

// next returns the next token, "" at the end. Strings are returned as one quotation
// mark: nothing depends on what they contain. It reports false for an unfinished
// string.
func (s *scanner) next() (token string, ok bool) {
	for s.rest != "" {
		switch c := s.rest[0]; {
		case strings.IndexByte(" \t\r\n,", c) >= 0:
			s.rest = s.rest[1:]
		case strings.HasPrefix(s.rest, "\ufeff"):
			s.rest = s.rest[len("\ufeff"):]
		case c == '#':
			i := strings.IndexAny(s.rest, "\r\n")
			if i < 0 {
				i = len(s.rest)
			}
			s.rest = s.rest[i:]
		case c == '"':
			return `"`, s.text()
		case isName(c):
			n := 1
			for n < len(s.rest) && (isName(s.rest[n]) || s.rest[n] >= '0' && s.rest[n] <= '9') {
				n++
			}
			token, s.rest = s.rest[:n], s.rest[n:]
			return token, true
		default:
			token, s.rest = s.rest[:1], s.rest[1:]
			return token, true
		}
	}
	return "", true
}

// text skips a string or a block string.
func (s *scanner) text() bool {
	const block = `"""`
	if rest, ok := strings.CutPrefix(s.rest, block); ok {
		for {
			i := strings.Index(rest, block)
			if i < 0 {
				return false
			}
			escaped := i > 0 && rest[i-1] == '\\'
			if rest = rest[i+len(block):]; !escaped {
				s.rest = rest
				return true
			}
		}
	}
	for i := 1; i < len(s.rest); i++ {
		switch s.rest[i] {
		case '\\':
			i++
		case '\n', '\r':
			return false
		case '"':
			s.rest = s.rest[i+1:]
			return true
		}
	}
	return false
}

func isName(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }
