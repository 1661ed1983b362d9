package config

import (
	"encoding/json"
	"mime"
	"reflect"
	"slices"
	"strings"

	"github.com/weir-go/weir/weirhttp"
)

var comparisons = map[string]weirhttp.Compare{"bytes": weirhttp.CompareBytes, "json": weirhttp.CompareJSON}

// rules converts the reads of a route for its jobs.
func rules(reads []Read) []weirhttp.ReadRule {
	f := fieldNamed(fieldNamed(root, "routes").fields, "reads")
	var all []weirhttp.ReadRule
	for _, r := range reads {
		var rule weirhttp.ReadRule
		convert(f.fields, reflect.ValueOf(r), reflect.ValueOf(&rule).Elem())
		all = append(all, rule)
	}
	return all
}

func checkReadMethod(text string) *mistake {
	if m := checkMethod(text); m != nil {
		return m
	}
	if slices.Contains([]string{"HEAD", "OPTIONS", "TRACE", "PUT", "PATCH", "DELETE"}, text) {
		return &mistake{problem: "cannot be a read with a body; use POST, QUERY, REPORT, SEARCH or GET"}
	}
	return nil
}

func checkMedia(text string) *mistake {
	const want = "must be a media type in lower case, without parameters"
	kind, params, err := mime.ParseMediaType(text)
	switch {
	case err != nil || strings.Count(kind, "/") != 1:
		return &mistake{problem: want + ", such as application/json"}
	case strings.Contains(kind, "*"):
		return &mistake{problem: "must be a whole media type, such as application/json: no list of types takes patterns"}
	case kind != text || len(params) > 0:
		return &mistake{want, kind}
	}
	return nil
}

func checkPointer(text string) *mistake {
	const want = "must be a JSON pointer (RFC 6901), such as /user or /metadata/trace"
	switch {
	case text == "" || text[0] != '/':
		m := &mistake{problem: want}
		if token.MatchString(text) {
			m.suggestion = "/" + strings.ReplaceAll(text, ".", "/")
		}
		return m
	case strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(text), "~"):
		return &mistake{problem: want + ", with ~0 for ~ and ~1 for / in a name"}
	}
	return nil
}

const wantCondition = "must be a JSON pointer, = and JSON values, such as /temperature = 0 or absent"

func checkCondition(text string) *mistake {
	_, m := parseCondition(text)
	return m
}

// parseCondition reads a condition: /field = VALUE or VALUE or absent.
func parseCondition(text string) (weirhttp.ReadCondition, *mistake) {
	field, rest, ok := strings.Cut(text, "=")
	c := weirhttp.ReadCondition{Field: strings.TrimSpace(field)}
	if !ok {
		return c, &mistake{problem: wantCondition}
	}
	if m := checkPointer(c.Field); m != nil {
		return c, &mistake{problem: wantCondition}
	}
	for {
		rest = strings.TrimSpace(rest)
		if after, ok := strings.CutPrefix(rest, "absent"); ok {
			c.Absent, rest = true, after
		} else {
			d := json.NewDecoder(strings.NewReader(rest))
			var value json.RawMessage
			if d.Decode(&value) != nil {
				m := &mistake{problem: wantCondition + "; strings need quotation marks"}
				return c, m
			}
			c.Values, rest = append(c.Values, string(value)), rest[d.InputOffset():]
		}
		if rest = strings.TrimSpace(rest); rest == "" {
			return c, nil
		}
		after, ok := strings.CutPrefix(rest, "or ")
		if !ok {
			return c, &mistake{problem: wantCondition + ", separated by or"}
		}
		rest = after
	}
}

// conditions converts conditions that were checked.
func conditions(texts []string) []weirhttp.ReadCondition {
	var all []weirhttp.ReadCondition
	for _, text := range texts {
		if c, m := parseCondition(text); m == nil {
			all = append(all, c)
		}
	}
	return all
}
