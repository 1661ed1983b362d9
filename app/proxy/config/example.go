package config

import "strings"

// formExamples are texts of each form.
var formExamples = map[string]string{
	"address": "127.0.0.1:8080", "server": "http://127.0.0.1:3000", "network": "10.0.0.0/8", "file": "server.pem", "dir": "/var/lib/weir",
	"host": "shop.example", "pattern": "shop.example", "path": "/healthz", "prefix": "/api", "method": "GET",
	"base": "/api", "param": "utm_*", "hostfield": "api.internal",
	"field": "X-Site", "ignored field": "X-Site", "field pattern": "X-Acme-*", "token": "session", "cookie": "session", "name": "shop", "nats": "nats://127.0.0.1:4222",
	"folder": "/var/lib/weir", "otlp": "http://127.0.0.1:4318", "namespace": "shop", "principal": "X-User", "client": "address", "key part": "path",
	"route": "old-name", "event data": `"[DONE]"`, "event type": "message_stop",
	"readmethod": "POST", "media": "application/json", "pointer": "/user", "cost pointer": "/usage/total_tokens", "currency": "EUR", "condition": "/temperature = 0 or absent",
}

// example returns the setting as it may be written.
func (f *field) example() string {
	value := f.exampleValue()
	switch {
	case f.typ == typeFields:
		value = "{X-Site: shop}"
	case f.fields == nil && !f.isList() && value == "":
		value = "{X-Site: file}"
	case f.isList():
		value = "[" + value + "]"
	}
	return f.name + ": " + value
}

// exampleValue returns a value of f, its default if that is useful; "" for a setting
// that is not a single value or a list of values.
func (f *field) exampleValue() string {
	value, _, _ := strings.Cut(f.def, ",")
	candidates := []string{value, formExamples[f.form]}
	if f.enum != nil {
		candidates = []string{value, f.enum[0]}
	}
	candidates = append(candidates, "10s", "1MiB", "10", "0.5", "true", f.min, f.max)
	if f.form == "" && f.enum == nil {
		candidates = append(candidates, "main")
	}
	for _, text := range candidates {
		if text == "" || text == none || !f.valueKnown() {
			continue
		}
		if _, err := f.parse(text); err == nil {
			return text
		}
	}
	return ""
}

// valueKnown reports whether f is a value or a list of values, not a section or header
// fields.
func (f *field) valueKnown() bool {
	return f.fields == nil && f.typ != typeFields && !strings.HasPrefix(f.typ.String(), "map")
}

// withExample appends an example to a fault that has neither an example nor a suggestion.
func (f *field) withExample(err error) error {
	m, ok := err.(*mistake)
	if !ok || m.suggestion != "" || strings.Contains(m.problem, "such as ") {
		return err
	}
	link := "; use a value such as "
	if strings.HasPrefix(m.problem, "must ") {
		link = ", such as "
	}
	return &mistake{problem: m.problem + link + f.example()}
}
