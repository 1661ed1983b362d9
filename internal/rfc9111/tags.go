package rfc9111

import (
	"net/http"
	"strings"
)

// Bounds of [Response.Tags]. A response that exceeds them is not stored: after
// losing a tag, it could not be purged by it.
const (
	MaxTags   = 1000
	MaxTagLen = 1024 // bytes
)

// readTags parses Surrogate-Key, split at blanks, and Cache-Tag, split at commas.
// It drops duplicates, and reports whether the tags are within the bounds.
func readTags(h http.Header) ([]string, bool) {
	keys, lines := h["Surrogate-Key"], h["Cache-Tag"]
	if len(keys) == 0 && len(lines) == 0 {
		return nil, true
	}
	var tags []string
	seen := make(map[string]bool)
	ok := true
	add := func(tag string) {
		if tag == "" || seen[tag] || !ok {
			return
		}
		ok = len(tags) < MaxTags && len(tag) <= MaxTagLen
		seen[tag] = true
		tags = append(tags, tag)
	}
	for _, line := range keys {
		for tag := range strings.FieldsSeq(line) {
			add(tag)
		}
	}
	for _, line := range lines {
		for tag := range strings.SplitSeq(line, ",") {
			add(trim(tag))
		}
	}
	return tags, ok
}
