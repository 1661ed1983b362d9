package jobs

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// headers are SubmitOptions.Headers as they are stored: a list of names and values,
// sorted by name. It is a list and not an object, because jobs/embedded searches
// records for their fields by name.
type headers map[string]string

var headerForm = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9._-]{1,%d}$`, MaxHeader))

// MarshalJSON returns [["name","value"],…].
func (h headers) MarshalJSON() ([]byte, error) {
	list := make([][2]string, 0, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		list = append(list, [2]string{name, h[name]})
	}
	return []byte(strings.TrimSuffix(string(encode(list)), "\n")), nil
}

// UnmarshalJSON parses what MarshalJSON returns.
func (h *headers) UnmarshalJSON(text []byte) error {
	var list [][2]string
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	*h = make(headers, len(list))
	for _, pair := range list {
		(*h)[pair[0]] = pair[1]
	}
	return nil
}

// validate adds the faults of h to f, in the order of the names. An error does not
// contain a value.
func (h headers) validate(f *faults) {
	const field = "SubmitOptions.Headers"
	size := 0
	if !f.Check(len(h) <= MaxHeaders, field, fmt.Sprintf("%d headers", len(h)), fmt.Sprintf("at most %d", MaxHeaders)) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		value := h[name]
		size += len(name) + len(value)
		f.Check(headerForm.MatchString(name), field, fmt.Sprintf("name %.80q", name), fmt.Sprintf("names of 1 to %d letters, digits, - . and _", MaxHeader))
		plain := utf8.ValidString(value) && strings.IndexFunc(value, unicode.IsControl) < 0
		f.Check(plain, field, fmt.Sprintf("a value of %d bytes for %.80q", len(value), name), "UTF-8 without control characters")
	}
	f.Check(size <= MaxHeadersBytes, field, fmt.Sprintf("%d bytes in all", size), fmt.Sprintf("at most %d", MaxHeadersBytes))
}
