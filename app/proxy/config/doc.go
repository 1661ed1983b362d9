// Package config implements the configuration of weir proxy: a YAML file, overridden by
// WEIR_* variables, overridden by flags. It is strict: anything unknown or invalid is a
// [Fault] with the position and, if possible, a suggestion. All faults are reported at
// once.
//
// The structs are the only list of settings. Their tags carry the name, the
// default, the bounds and the meaning, and the decoder, the JSON schema, the reference page
// and the conversion to a [gateway.Config] are derived from them:
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
