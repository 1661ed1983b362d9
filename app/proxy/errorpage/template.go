package errorpage

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"math"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-go/weir/weirhttp"
)

// MaxBytes is the largest size of a page's file.
const MaxBytes = 64 << 10

// A Type is the type of a page.
type Type int

// The types of pages.
const (
	JSON Type = iota
	HTML
)

// A Template is a page with placeholders.
type Template struct {
	kind Type
	// texts stand before, between and after the fields.
	texts  []string
	fields []string
}

// names lists the placeholders.
var names = []string{"status", "reason", "message", "retry_after", "request_id"}

// Parse reads a page, which must be UTF-8 and have at most MaxBytes. A JSON page must be
// valid JSON, whatever the values of its placeholders.
func Parse(kind Type, text []byte) (*Template, error) {
	switch {
	case len(text) > MaxBytes:
		return nil, errors.New("is larger than 64KiB")
	case !utf8.Valid(text):
		return nil, errors.New("is not UTF-8")
	}
	t := &Template{kind: kind}
	rest := strings.TrimPrefix(string(text), "\uFEFF")
	section := "" // the one that is open
	line := func(after string) int { return 1 + strings.Count(string(text[:len(text)-len(after)]), "\n") }
	for {
		before, after, found := strings.Cut(rest, "{{")
		t.texts = append(t.texts, before)
		if !found {
			break
		}
		name, left, ended := strings.Cut(after, "}}")
		name = strings.TrimSpace(name)
		mark, plain := cutMark(name)
		if !ended || !known(plain) {
			return nil, fmt.Errorf("has an unknown placeholder on line %d; there are {{%s}}", line(after), strings.Join(names, "}}, {{"))
		}
		switch {
		case mark == begins && section == "":
			section = plain
		case mark == ends && section == plain:
			section = ""
		case mark != 0:
			return nil, fmt.Errorf("has {{%s}} on line %d, which does not match; sections do not nest", name, line(after))
		}
		t.fields = append(t.fields, name)
		rest = left
	}
	if section != "" {
		return nil, fmt.Errorf("has {{#%s}} without {{/%[1]s}}", section)
	}
	if kind == JSON {
		for _, sample := range []values{{}, {status: 503, retryAfter: 1, message: `"\<`, requestID: "a"}} {
			if !json.Valid([]byte(t.render(sample))) {
				return nil, errors.New("is not valid JSON once its placeholders have values: those of texts belong in quotes")
			}
		}
	}
	return t, nil
}

// The marks of a placeholder that begins or ends a section. The text between them is shown
// only if the placeholder has a value: {{#retry_after}}...{{/retry_after}}.
const begins, ends = '#', '/'

// cutMark returns name without its mark, and the mark, 0 for none.
func cutMark(name string) (mark byte, plain string) {
	if name != "" && (name[0] == begins || name[0] == ends) {
		return name[0], name[1:]
	}
	return 0, name
}

func known(name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// values are what placeholders stand for.
type values struct {
	status, retryAfter int
	message, requestID string
}

func valuesOf(r *http.Request, e weirhttp.ErrorResponse) values {
	return values{e.Status, int(math.Ceil(e.RetryAfter.Seconds())), e.Text, requestID(r)}
}

// maxID is the largest length of a request ID that is shown.
const maxID = 128

// requestID returns the X-Request-Id that r came with. It is empty unless all of it is
// letters, digits, ".", "_", "-", ":" and "=", which mean nothing in any part of a page.
func requestID(r *http.Request) string {
	ids := r.Header["X-Request-Id"]
	if len(ids) != 1 || len(ids[0]) > maxID {
		return ""
	}
	for i := range len(ids[0]) {
		c := ids[0][i]
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || strings.IndexByte("._-:=", c) >= 0) {
			return ""
		}
	}
	return ids[0]
}

// render returns the page.
func (t *Template) render(v values) string {
	var b strings.Builder
	hidden := false
	for i, text := range t.texts {
		if !hidden {
			b.WriteString(text)
		}
		if i == len(t.fields) {
			break
		}
		switch mark, name := cutMark(t.fields[i]); {
		case mark == begins:
			hidden = !v.has(name)
		case mark == ends:
			hidden = false
		case !hidden:
			b.WriteString(t.escape(v.of(name)))
		}
	}
	return b.String()
}

// of returns the value of a placeholder.
func (v values) of(name string) string {
	switch name {
	case "status":
		return strconv.Itoa(v.status)
	case "reason":
		return http.StatusText(v.status)
	case "message":
		return v.message
	case "retry_after":
		return strconv.Itoa(v.retryAfter)
	}
	return v.requestID
}

// has reports whether a placeholder has a value.
func (v values) has(name string) bool {
	value := v.of(name)
	return value != "" && value != "0"
}

func (t *Template) escape(text string) string {
	if t.kind == HTML {
		return html.EscapeString(text)
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return "" // a string always has a JSON form
	}
	return string(quoted[1 : len(quoted)-1])
}
