package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// nearest returns the name that word probably means, or "".
func nearest(word string, names []string) string {
	word = start(word)
	best, bestDistance := "", 0
	plain := plainName(word)
	for _, name := range names {
		d := distance(plain, plainName(name))
		if d > max(1, len(name)/3) || d >= len(name) {
			continue
		}
		if best == "" || d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// start returns the start of a word. A longer word is not a typo of a name, and a file can
// contain many that are very long.
func start(word string) string {
	const most = 64 + 1
	n := 0
	for i := range word {
		if n++; n > most {
			return word[:i]
		}
	}
	return word
}

// plainName removes differences in spelling: readTimeout, read-timeout, READ_TIMEOUT.
func plainName(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

// distance returns how many letters must be inserted, deleted, replaced, or swapped with
// their neighbor to turn a into b (optimal string alignment).
func distance(a, b string) int {
	const most = 64 // beyond it a word is not a typo
	x, y := []rune(a), []rune(b)
	if len(x) > most || len(y) > most {
		return most
	}
	rows := [3][]int{make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(x); i++ {
		before, above, row := rows[0], rows[1], rows[2]
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		rows[0], rows[1], rows[2] = above, row, before
	}
	return rows[1][len(y)]
}

// alternatives lists words with "or" before the last.
func alternatives(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// some lists names, the first ones of many.
func some(names []string) string {
	const most = 10
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// sections returns the sections in which a field of that name exists, as far as one can be
// meant in the section at from.
func sections(from, name string) []string {
	var found []string
	eachField(root, "", func(path string, f *field) {
		if at := parent(path); f.name == name && related(from, at) {
			found = append(found, at)
		}
	})
	return found
}

// related reports whether what was written in the section at from can be meant for the one at
// to: one of them is the whole file, they are parts of one section, or of a route and its
// upstream, or they have one name. A field of another section that happens to have the name
// is something else.
func related(from, to string) bool {
	first := func(path string) string {
		top, _, _ := strings.Cut(path, ".")
		if top == "upstreams[]" {
			return "routes[]"
		}
		return top
	}
	last := func(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
	return from == "" || to == "" || first(from) == first(to) || last(from) == last(to)
}

// rightForms shows sections and lists in their most common form.
var rightForms = map[string]string{
	"idempotency": "idempotency: {dir: keys}", "routes.idempotency": "idempotency: {required: true, unknown: refuse}",
	"events": "events: {share: true, ttl: 10m}",
	"listen": "listen: [{address: 127.0.0.1:8080}]", "upstreams": "upstreams: [{name: shop, servers: [http://127.0.0.1:3000]}]",
	"routes": "routes: [{name: all}]", "rate": "rate: {requests: 10, per: 1s}", "async": "async: {budget: 2s}",
	"jobs": "jobs: {dir: jobs}", "admin": "admin: {address: 127.0.0.1:9090}", "log": "log: {level: info}",
	"drain": "drain: {timeout: 30s}", "server": "server: {idle_timeout: 60s}", "cache": "cache: {memory: 64MiB}",
	"fleet": "fleet: {redis: {addresses: [127.0.0.1:6379]}}", "redis": "redis: {addresses: [127.0.0.1:6379]}",
	"telemetry": "telemetry: {otlp: {endpoint: http://127.0.0.1:4318}}", "otlp": "otlp: {endpoint: http://127.0.0.1:4318}",
	"tls": "tls: {cert: server.pem, key: server.key}", "health": "health: {path: /healthz}", "retry": "retry: {attempts: 2}",
	"error_pages": "error_pages: [{html: error.html}]", "more": "more: [{cert: shop.pem, key: shop.key}]",
	"servers": "servers: [http://127.0.0.1:3000]",
	"query":   "query: {drop: [utm_*]}", "hedge": "hedge: {budget: 2}", "affinity": "affinity: {by: [path]}", "sticky": "sticky: {cookie: server}",
	"fallback":        "fallback: {upstream: standby, when: [down]}",
	"routes.deadline": "deadline: {header: x-request-timeout, unit: ms}", "upstreams.deadline": "deadline: {header: x-request-timeout, unit: ms}",
	"loops": "loops: {allow: 1}", "request": "request: {set: {X-Site: shop}}", "response": "response: {remove: [Server]}",
	"routes.cache": "cache: {ttl: 1m}", "upstreams.tls": "tls: {ca: ca.pem}", "redis.tls": "tls: {ca: ca.pem}",
	"cost": "cost: {usage: /usage/total_tokens}", "upstreams.budget": "budget: {units: 100000, per: 1m}", "routes.budget": "budget: {units: 100000, per: 1m}", "routes.client_budget": "client_budget: {units: 10000, per: 1m, by: header:Authorization}",
	"reads": "reads: [{types: [application/json]}]", "jobs.tls": "tls: {ca: ca.pem}", "otlp.tls": "tls: {ca: ca.pem}", "sentinel": "sentinel: {master: main}",
}

var inBrackets = regexp.MustCompile(`\[\d+\]`)

// rightForm completes a fault about a setting of the wrong kind.
func rightForm(path string) string {
	parts := strings.Split(inBrackets.ReplaceAllString(path, ""), ".")
	last := parts[len(parts)-1]
	for _, name := range []string{parts[max(len(parts)-2, 0)] + "." + last, last} {
		if form := rightForms[name]; form != "" {
			return ", such as " + form
		}
	}
	return ""
}

// eachField calls visit for every field, with paths such as routes[].cache.ttl.
func eachField(fields []*field, prefix string, visit func(path string, f *field)) {
	for _, f := range fields {
		path := prefix + f.name
		visit(path, f)
		if f.fields == nil {
			continue
		}
		if f.isList() {
			path += "[]"
		}
		eachField(f.fields, path+".", visit)
	}
}

// unknownField suggests what an unknown field, written in the section at path, was probably
// meant to be.
func unknownField(path, name string, fields []*field) *mistake {
	name = start(name)
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
		if plainName(f.name) == plainName(name) {
			return &mistake{"unknown field", f.name}
		}
	}
	if near := slip(name, names); near != "" {
		return &mistake{"unknown field", near} // fields that are valid here take precedence over those elsewhere
	}
	for _, candidate := range []string{name, strings.ToLower(name), strings.ReplaceAll(name, "-", "_")} {
		if at := sections(inBrackets.ReplaceAllString(path, "[]"), candidate); len(at) > 0 {
			return &mistake{problem: "unknown field here; " + candidate + " belongs " + places(at)}
		}
	}
	if near := nearest(name, names); near != "" {
		return &mistake{"unknown field", near}
	}
	slices.Sort(names)
	return &mistake{problem: "unknown field; the fields are " + strings.Join(names, ", ")}
}

// slip returns the name that differs from word only at the end, such as servers for server,
// or "".
func slip(word string, names []string) string {
	plain := plainName(word)
	for _, name := range names {
		n := plainName(name)
		if n == plain+"s" || n+"s" == plain {
			return name
		}
	}
	return ""
}

func places(sections []string) string {
	var words []string
	for _, s := range sections {
		if s == "" {
			words = append(words, "at the top")
		} else {
			words = append(words, "under "+s)
		}
	}
	return alternatives(words)
}
