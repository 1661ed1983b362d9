// Package config is the configuration of weir proxy: a YAML file, WEIR_*
// variables over it, flags over both. It is strict. What it does not understand
// is a [Fault] that names the place and, where it can, what was meant; all of
// them are reported at once.
//
// The structs are the only list of settings. Their tags carry the name, the
// default, the bounds and the meaning, and from them come the decoder, the JSON
// schema, the reference page and the way into a [gateway.Config]:
//
//	yaml     the name in the file
//	default  as it would be written; lists with commas
//	min, max bounds, both included
//	none     "none" may be written; the value is what the gateway calls it
//	enum     the values that are allowed
//	form     what a text has to be, see forms
//	required it must be written
//	least    how many items a list must have
//	secret   the value is never shown
//	gw       the field of the gateway's struct, with ! for its opposite
//	help     the meaning
package config
