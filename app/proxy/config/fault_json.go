package config

import "encoding/json"

// MarshalJSON returns the fault as an object, without the Snippet. Like Error, it contains no
// secrets.
func (f *Fault) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		File       string `json:"file,omitempty"`
		Line       int    `json:"line,omitempty"`
		Column     int    `json:"column,omitempty"`
		Field      string `json:"field,omitempty"`
		Value      string `json:"value,omitempty"`
		Problem    string `json:"problem"`
		Suggestion string `json:"suggestion,omitempty"`
	}{f.File, f.Line, f.Column, withoutUser(f.Field), f.Value, f.Problem, f.Suggestion})
}
