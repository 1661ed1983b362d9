package config

import (
	"go.yaml.in/yaml/v4"
)

// An entry is a key of a mapping with its value.
type entry struct{ key, value *yaml.Node }

// entries returns the entries of a mapping: its own, then those merged with << that it does
// not have itself.
func (d *decoder) entries(p place, n *yaml.Node) []entry {
	var out []entry
	have := map[string]bool{}
	d.collect(p, n, have, &out, map[*yaml.Node]bool{})
	return out
}

// collect adds the entries of one mapping; inside holds the mappings that lead to it.
func (d *decoder) collect(p place, n *yaml.Node, have map[string]bool, out *[]entry, inside map[*yaml.Node]bool) {
	inside[n] = true
	defer delete(inside, n)
	own := map[string]*yaml.Node{}
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), n.Content[i+1]
		at := place{d.keyPath(p.path, key), key}
		first := own[key.Value]
		switch {
		case !d.step(at):
			return
		case key.Kind != yaml.ScalarNode:
			d.complainf(place{p.path, key}, "has %s instead of a field name", kindOf(key))
		case key.ShortTag() == "!!merge":
			merges = append(merges, value)
		case first != nil:
			d.complainf(at, "is a duplicate; the first is on line %d", first.Line)
		default:
			own[key.Value] = key
			if !have[key.Value] {
				have[key.Value] = true
				*out = append(*out, entry{key, value})
			}
		}
	}
	for _, m := range merges {
		d.merge(place{p.path, m}, have, out, inside)
	}
}

// merge adds the mapping, or list of mappings, that << refers to.
func (d *decoder) merge(p place, have map[string]bool, out *[]entry, inside map[*yaml.Node]bool) {
	if !d.step(p) {
		return
	}
	switch n := resolve(p.node); {
	case inside[n]:
		d.complainf(p, "merges a section into itself")
	case n.Kind == yaml.MappingNode:
		d.collect(p, n, have, out, inside)
	case n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			if item = resolve(item); item.Kind != yaml.MappingNode {
				d.complainf(place{p.path, item}, "can only merge sections")
				continue
			}
			d.merge(place{p.path, item}, have, out, inside)
		}
	default:
		d.complainf(p, "can only merge sections")
	}
}
