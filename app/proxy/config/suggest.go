package config

import (
	"slices"
	"strings"
)

// nearest returns which of names was meant by word, or "".
func nearest(word string, names []string) string {
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

// plainName takes away what people write in different ways: readTimeout,
// read-timeout, READ_TIMEOUT.
func plainName(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

// distance is how many letters have to be put in, taken out, replaced, or
// swapped with their neighbour to make b of a (optimal string alignment).
func distance(a, b string) int {
	const most = 64 // beyond it nothing is a slip of the pen
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

// sections says under which sections a field of that name exists.
func sections(name string) []string {
	var found []string
	eachField(root, "", func(path string, f *field) {
		if f.name == name {
			found = append(found, strings.TrimSuffix(strings.TrimSuffix(path, name), "."))
		}
	})
	return found
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

// unknownField says what may have been meant by a field that is not among
// fields.
func unknownField(name string, fields []*field) *mistake {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
		if plainName(f.name) == plainName(name) {
			return &mistake{"unknown field", f.name}
		}
	}
	for _, candidate := range []string{name, strings.ToLower(name), strings.ReplaceAll(name, "-", "_")} {
		if at := sections(candidate); len(at) > 0 {
			return &mistake{problem: "unknown field here; " + candidate + " belongs " + places(at)}
		}
	}
	if near := nearest(name, names); near != "" {
		return &mistake{"unknown field", near}
	}
	slices.Sort(names)
	return &mistake{problem: "unknown field; there are " + strings.Join(names, ", ")}
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
