package console_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/weir-go/weir/console"
)

func TestNumbersThatJSONDoesNotHave(t *testing.T) {
	c := console.Column{1, nan, 0.5, math.Inf(1), math.Inf(-1), 0, 1795300535.465, float64(float32(0.1)), 1e-9, 1e30, -2}
	const want = "[1,null,0.5,null,null,0,1795300535.465,0.1,1e-09,1e+30,-2]"
	if b, err := json.Marshal(c); string(b) != want || err != nil {
		t.Errorf("column %s, %v; want %s", b, err, want)
	}
	p := console.Point{"t": 7, "b": nan, "<": 0.25}
	if b, err := json.Marshal(p); string(b) != "{\"\\u003c\":0.25,\"b\":null,\"t\":7}" || err != nil {
		t.Errorf("point %s, %v; want null for NaN", b, err)
	}
	var back console.Point
	if err := json.Unmarshal([]byte(`{"a": null, "b": 2}`), &back); err != nil || len(back) != 2 || !math.IsNaN(back["a"]) || back["b"] != 2 {
		t.Errorf("point %v, %v; want NaN and 2", back, err)
	}
	if b, err := json.Marshal(console.Column(nil)); string(b) != "[]" || err != nil {
		t.Errorf("an empty column is %s, %v; want []", b, err)
	}
}

// Every decoded column can be encoded, and decodes to the same values again.
func FuzzColumn(f *testing.F) {
	for _, seed := range []string{`[]`, `[1,null,2.5]`, `[1e400]`, `null`, `{}`, `[1,"x"]`, `[-0,1e-7,123456789.125]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var c, again console.Column
		if json.Unmarshal([]byte(text), &c) != nil {
			return
		}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatalf("Marshal(%v) = %v", c, err)
		}
		if err := json.Unmarshal(b, &again); err != nil || len(again) != len(c) {
			t.Fatalf("%s decodes to %v, %v; want %v", b, again, err, c)
		}
		for i := range c {
			same := c[i] == again[i]
			if short := float32(c[i]); float64(short) == c[i] { // it was written with the digits of 32 bits
				same = short == float32(again[i])
			}
			if !same && !(math.IsNaN(c[i]) && math.IsNaN(again[i])) {
				t.Errorf("%s: %v decodes to %v", text, c[i], again[i])
			}
		}
	})
}
