package config

import (
	"fmt"
	"strconv"
	"strings"
)

// index adds new faults to the maps of their paths.
func (d *decoder) index() {
	for ; d.known < len(d.faults); d.known++ {
		path := d.faults[d.known].Field
		d.exact[path] = true
		for path = above(path); path != ""; path = above(path) {
			d.ancestors[path] = true
		}
	}
}

// above returns the list or section that a setting or an item is in.
func above(path string) string {
	if i := strings.LastIndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return ""
}

// faulty reports whether a setting, or one within it, already has a fault.
func (d *decoder) faulty(path string) bool {
	d.index()
	return d.exact[path] || d.ancestors[path]
}

// condemned reports whether a setting, or what it is in, already has a fault.
func (d *decoder) condemned(path string) bool {
	d.index()
	for ; path != ""; path = above(path) {
		if d.exact[path] || d.meant[path] {
			return true
		}
	}
	return false
}

// doubtful reports whether the value of a setting can be another than the one that was
// meant, because of a fault. A rule about it and another setting then says nothing.
func (d *decoder) doubtful(path string) bool { return d.faulty(path) || d.condemned(path) }

// absent reports whether a setting is certainly missing.
func (d *decoder) absent(path string) bool { return d.nodes[path] == nil && !d.doubtful(path) }

// item returns the path of an item as the file counts it, if it is one of a list whose
// faulty items were left out.
func (d *decoder) item(path string) string {
	list, rest, ok := strings.Cut(path, "[")
	for at := list; ok; at += "[" + list {
		if kept, shorter := d.kept[at]; shorter {
			text, after, _ := strings.Cut(rest, "]")
			if i, err := strconv.Atoi(text); err == nil && i < len(kept) {
				return fmt.Sprintf("%s[%d]%s", at, kept[i], after)
			}
		}
		list, rest, ok = strings.Cut(rest, "[")
	}
	return path
}
