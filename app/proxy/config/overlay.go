package config

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// defaultName is the name of an upstream or a route that is not named in a file.
const defaultName = "default"

// overlay adds the settings of flags and variables to the file's nodes, over the file's
// settings. From then on all are read in the same way.
func (d *decoder) overlay(doc *yaml.Node, settings []setting) {
	if doc.Kind != yaml.MappingNode {
		return // the file is faulty
	}
	listens := false
	for _, s := range settings {
		head, rest, _ := strings.Cut(s.path, "[].")
		switch {
		case s.path == "listen":
			listens = true
			d.set(doc, []string{"listen"}, d.listeners(s))
		case head == "listen":
			d.setListeners(doc, rest, s, listens)
		case head == "upstreams":
			d.setUpstream(doc, rest, s)
		case s.path == "trusted_proxies":
			d.set(doc, []string{s.path}, d.sequence(s))
		default:
			d.set(doc, strings.Split(s.path, "."), d.text(s.values[0], s.origin))
		}
	}
}

// text returns a node for a value from a flag or a variable.
func (d *decoder) text(value, origin string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
	d.origins[n] = origin
	return n
}

func (d *decoder) sequence(s setting) *yaml.Node {
	n := d.node(yaml.SequenceNode, s.origin)
	for _, value := range s.values {
		n.Content = append(n.Content, d.text(value, s.origin))
	}
	return n
}

func (d *decoder) node(kind yaml.Kind, origin string) *yaml.Node {
	n := &yaml.Node{Kind: kind}
	d.origins[n] = origin
	return n
}

// listeners returns a list of listeners with these addresses.
func (d *decoder) listeners(s setting) *yaml.Node {
	list := d.node(yaml.SequenceNode, s.origin)
	for _, value := range s.values {
		item := d.node(yaml.MappingNode, s.origin)
		d.set(item, []string{"address"}, d.text(value, s.origin))
		list.Content = append(list.Content, item)
	}
	return list
}

// setListeners sets a field of the listeners that flags name, or of the default
// listener. The file's listeners have their own settings.
func (d *decoder) setListeners(doc *yaml.Node, rest string, s setting, listens bool) {
	list := lookUp(doc, "listen")
	if list == nil {
		list = d.listeners(setting{values: []string{defaultListen}, origin: s.origin})
		d.set(doc, []string{"listen"}, list)
	} else if _, ours := d.origins[list]; !ours {
		d.complain(place{"", d.text("", s.origin)}, s.values[0], &mistake{problem: "applies only to --listen; the file's listeners have their own setting"})
		return
	}
	for _, item := range list.Content {
		d.set(item, strings.Split(rest, "."), d.text(s.values[0], s.origin))
	}
}

// setUpstream sets a field of the only upstream. It creates the upstream if there is
// none.
func (d *decoder) setUpstream(doc *yaml.Node, rest string, s setting) {
	list := lookUp(doc, "upstreams")
	if list == nil {
		list = d.node(yaml.SequenceNode, s.origin)
		item := d.node(yaml.MappingNode, s.origin)
		d.set(item, []string{"name"}, d.text(defaultName, s.origin))
		list.Content = []*yaml.Node{item}
		d.set(doc, []string{"upstreams"}, list)
	}
	if list = resolve(list); list.Kind != yaml.SequenceNode {
		return // the file is faulty
	}
	if len(list.Content) != 1 {
		d.complain(place{"", d.text("", s.origin)}, s.values[0],
			&mistake{problem: "applies to a single upstream, but the file has several"})
		return
	}
	value := d.text(s.values[0], s.origin)
	if rest == "servers" {
		value = d.sequence(s)
	}
	item := resolve(list.Content[0])
	if item.Kind == yaml.MappingNode {
		d.set(item, []string{rest}, value)
	}
}

// set sets the value at a path and overrides the existing one. It creates missing
// sections. If something other than a section is in the path, the file is faulty.
func (d *decoder) set(n *yaml.Node, path []string, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != path[0] {
			continue
		}
		if len(path) == 1 {
			n.Content[i+1] = value
			return
		}
		below := n.Content[i+1]
		switch {
		case below.Kind == yaml.AliasNode: // other parts of the file can refer to the same node
			below = d.node(yaml.MappingNode, d.origins[value])
			below.Content = []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!merge", Value: "<<"}, n.Content[i+1]}
			n.Content[i+1] = below
		case isNull(below):
			below = d.node(yaml.MappingNode, d.origins[value])
			n.Content[i+1] = below
		case below.Kind != yaml.MappingNode:
			return
		}
		d.set(below, path[1:], value)
		return
	}
	key := d.text(path[0], d.origins[value])
	if len(path) > 1 {
		below := d.node(yaml.MappingNode, d.origins[value])
		d.set(below, path[1:], value)
		value = below
	}
	n.Content = append(n.Content, key, value)
}

// lookUp returns a value of a mapping, nil if there is none.
func lookUp(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name && !isNull(resolve(n.Content[i+1])) {
			return n.Content[i+1]
		}
	}
	return nil
}
