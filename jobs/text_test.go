package jobs_test

import (
	"encoding/json"
	"testing"

	"github.com/weir-go/weir/jobs"
)

func TestJ6_TextThatJSONWouldChangeIsRefused(t *testing.T) {
	type nested struct {
		All  map[string][]any
		Skip string `json:"-"`
		Raw  json.RawMessage
		Data []byte
	}
	codec := jobs.JSON[any]()
	for name, v := range map[string]any{
		"a string":           "a\xffb",
		"in a slice":         []string{"a", "\xc3"},
		"as a key":           map[string]int{"\xff": 1},
		"in a pointer":       &nested{All: map[string][]any{"a": {1, "\xff"}}},
		"in a map of a map":  map[string]any{"a": map[string]any{"b": "\xed\xa0\x80"}},
		"behind a backslash": "\\\xff",
	} {
		if text, err := codec.Encode(v); err == nil {
			t.Errorf("%s: Encode(%q) = %s, nil; want an error, because the bytes would change", name, v, text)
		}
	}
	for name, v := range map[string]any{
		"the replacement itself":   "\ufffd",
		"an escape in the text":    `\ufffd`,
		"bytes":                    nested{Data: []byte("\xff")},
		"what JSON leaves out":     nested{Skip: "\xff"},
		"an escape of the caller":  nested{Raw: json.RawMessage(`"\ufffd"`)},
		"an escape and left out":   nested{Raw: json.RawMessage(`"\ufffd"`), Skip: "\xff"},
		"nothing":                  nil,
		"characters of four bytes": "𝛑",
	} {
		text, err := codec.Encode(v)
		if err != nil {
			t.Errorf("%s: Encode(%q) = %v; want nil", name, v, err)
		}
		if want, _ := json.Marshal(v); string(text) != string(want) {
			t.Errorf("%s: Encode(%q) = %s; want %s", name, v, text, want)
		}
	}
}
