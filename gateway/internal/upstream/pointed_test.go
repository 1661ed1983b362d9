package upstream

import (
	"bytes"
	"encoding/json"
	"strconv"
	"testing"
)

func TestPointed(t *testing.T) {
	const text = ` {"a" : 1, "b":{"c":[true, {"d":"x\"}"}, [2]]}, "e\n": null, "": 5, "b":6, "\u0066": -1.5e3}`
	for _, row := range []struct {
		pointer []string
		want    string
	}{
		{nil, text[1:]}, {[]string{"a"}, "1"}, {[]string{"b", "c", "1", "d"}, `"x\"}"`}, {[]string{"b", "c", "2"}, "[2]"},
		{[]string{"b", "c", "0"}, "true"}, {[]string{"e\n"}, "null"}, {[]string{""}, "5"}, {[]string{"f"}, "-1.5e3"},
		{[]string{"b", "c", "3"}, ""}, {[]string{"x"}, ""}, {[]string{"a", "b"}, ""}, {[]string{"b", "c", "01"}, ""},
	} {
		if got := pointed([]byte(text), row.pointer); string(got) != row.want {
			t.Errorf("pointed(%q) = %q; want %q", row.pointer, got, row.want)
		}
	}
}

func FuzzPointed(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"c"}]}`), "a", "1")
	f.Add([]byte(`[{"\u0061":2}, 3]`), "0", "a")
	f.Add([]byte(`{"`), "", "")
	f.Add([]byte(`"\`), "", "")
	f.Fuzz(func(t *testing.T, text []byte, one, two string) {
		got := pointed(text, []string{one, two})
		if !json.Valid(text) {
			return
		}
		want := text
		for _, name := range []string{one, two} {
			want = child(want, name)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("pointed(%q, %q, %q) = %q; want %q", text, one, two, got, want)
		}
	})
}

// child returns the first member or the element with that name of a JSON value, without space.
func child(text []byte, name string) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	begin, err := d.Token()
	if err != nil || begin != json.Delim('{') && begin != json.Delim('[') {
		return nil
	}
	for i := 0; d.More(); i++ {
		key := strconv.Itoa(i)
		if begin == json.Delim('{') {
			k, _ := d.Token()
			key = k.(string)
		}
		var v json.RawMessage
		if d.Decode(&v) != nil {
			return nil
		}
		if key == name {
			return v
		}
	}
	return nil
}
