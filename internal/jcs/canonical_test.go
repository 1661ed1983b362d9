package jcs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/jcs"
)

func form(t *testing.T, text string) jcs.Form {
	t.Helper()
	f, err := jcs.Canonical([]byte(text), nil)
	if err != nil {
		t.Fatalf("Canonical(%q): %v", text, err)
	}
	return f
}

// The example of RFC 8785 section 3.2.2 and its result in section 3.2.4.
func TestExampleOfTheRFC(t *testing.T) {
	const in = `{
	  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
	  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
	  "literals": [null, true, false]
	}`
	const want = `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`
	f := form(t, in)
	if string(f.Text) != want {
		t.Errorf("form = %s; want %s", f.Text, want)
	}
	if !f.Lossy {
		t.Error("333333333.33333329 is rounded, but the form is not lossy")
	}
}

// The sorting example of RFC 8785 section 3.2.3.
func TestNamesAreSortedByUTF16(t *testing.T) {
	const in = `{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh",` +
		`"1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`
	var names []string
	d := json.NewDecoder(bytes.NewReader(form(t, in).Text))
	for {
		token, err := d.Token()
		if err != nil {
			break
		}
		if s, ok := token.(string); ok {
			names = append(names, s)
		}
	}
	var got []string
	for i := 1; i < len(names); i += 2 {
		got = append(got, names[i])
	}
	want := []string{
		"Carriage Return", "One", "Control", "Latin Small Letter O With Diaeresis", "Euro Sign",
		"Emoji: Grinning Face", "Hebrew Letter Dalet With Dagesh",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("order = %q; want %q", got, want)
	}
}

// The samples of RFC 8785 appendix B.
func TestNumbersOfTheRFC(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0", 0x8000000000000000: "0",
		0x0000000000000001: "5e-324", 0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308", 0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992", 0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22", 0x44b52d02c7e14af6: "1e+23", 0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000", 0x444b1ae4d6e2ef4f: "999999999999999900000", 0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7", 0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332", 0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333", 0x41b3de4355555556: "333333333.3333334", 0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333", 0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		if got := string(jcs.AppendNumber(nil, math.Float64frombits(bits))); got != want {
			t.Errorf("AppendNumber(%x) = %s; want %s", bits, got, want)
		}
	}
}

func TestTextsOfOneMeaningHaveOneForm(t *testing.T) {
	for _, same := range [][]string{
		{`{"a":1,"b":[2,3]}`, "\t{ \"b\" : [ 2 , 3 ],\r\n\"a\":1 }\n"},
		{`1`, `1.0`, `1e0`, `10e-1`, `0.1e1`, `1.000E+00`, `100000000000000000000000e-23`},
		{`0`, `-0`, `0.0`, `0e5`, `0e99999999999`},
		{`"é"`, `"\u00e9"`, `"\u00E9"`},
		{`"/"`, `"\/"`}, {`"😀"`, `"\ud83d\ude00"`}, {`{"\u0061":1}`, `{"a":1}`},
	} {
		for _, text := range same[1:] {
			if a, b := form(t, same[0]), form(t, text); !bytes.Equal(a.Text, b.Text) || a.Lossy || b.Lossy {
				t.Errorf("%q has the form %s, %v; %q has %s, %v", same[0], a.Text, a.Lossy, text, b.Text, b.Lossy)
			}
		}
	}
}

func TestTextsOfTwoMeaningsHaveTwoForms(t *testing.T) {
	for _, text := range [][2]string{
		{`"é"`, `"e\u0301"`}, {`1`, `"1"`}, {`[1,2]`, `[2,1]`}, {`{"a":null}`, `{}`}, {`[12]`, `[1,2]`},
		{`{"a":"b","c":"d"}`, `{"a":"b\",\"c\":\"d"}`}, {`[[],[]]`, `[[[]]]`}, {`1`, `true`}, {`0.1`, `0.10000000000000002`},
	} {
		if a, b := form(t, text[0]), form(t, text[1]); bytes.Equal(a.Text, b.Text) {
			t.Errorf("%q and %q have the form %s", text[0], text[1], a.Text)
		}
	}
}

// Numbers that only a program with decimals tells apart are reported.
func TestRoundedNumbersAreLossy(t *testing.T) {
	for _, text := range []string{
		`0.1000000000000000055511151231257827`, `9007199254740993`, `0.30000000000000000001`, `1e-400`, `2e-324`,
		`12345678901234567890`, `[{"a":0.10000000000000000001}]`,
	} {
		if !form(t, text).Lossy {
			t.Errorf("the form of %s is not lossy", text)
		}
	}
	for _, text := range []string{`0.1`, `9007199254740992`, `1e22`, `5e-324`, `123456789012345680000`} {
		if form(t, text).Lossy {
			t.Errorf("the form of %s is lossy", text)
		}
	}
}

func TestTextsWithoutAForm(t *testing.T) {
	for _, text := range []string{
		``, ` `, `{`, `[`, `[1,]`, `{"a":1,}`, `{"a"}`, `{a:1}`, `'a'`, `01`, `1.`, `.5`, `+1`, `1e`, `-`, `NaN`, `Infinity`, `1 2`, `tru`, `truex`,
		`{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `[{"x":{"b":1,"c":2,"b":3}}]`,
		`"\ud83d"`, `"\ude00"`, `"\ud83dx"`, `"\ud83d\u0041"`, `"\x"`, `"\u00g0"`, `"\u12"`, "\"\x01\"", "\"\n\"", `"abc`, `"\`,
		"\"\xff\"", "\"\xed\xa0\x80\"", "\ufeff1", `1e309`, `-1e999`, `1/*c*/`,
		strings.Repeat("[", 200) + strings.Repeat("]", 200),
	} {
		if f, err := jcs.Canonical([]byte(text), nil); !errors.Is(err, jcs.ErrNoForm) {
			t.Errorf("Canonical(%q) = %s, %v; want ErrNoForm", text, f.Text, err)
		}
	}
	many := strings.Repeat(`{"a":1},`, jcs.MaxMembers+1)
	if _, err := jcs.Canonical([]byte("["+many+"1]"), nil); !errors.Is(err, jcs.ErrNoForm) {
		t.Errorf("Canonical of %d members: %v; want ErrNoForm", jcs.MaxMembers+1, err)
	}
}

func TestPlan(t *testing.T) {
	p, err := jcs.NewPlan([]string{"/user", "/a/b~1c", "/list/1", "/deep/x"}, []string{"/t", "/user", "", "/list/0", "/none"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := jcs.Canonical([]byte(`{"user":{"n":0.10000000000000000001},"t":1.0,"a":{"b/c":2,"d":3},"list":[4,5,6],"deep":7}`), p)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"a":{"d":3},"deep":7,"list":[4,6],"t":1}`
	if string(f.Text) != want || f.Lossy {
		t.Errorf("form = %s, lossy %v; want %s, exact", f.Text, f.Lossy, want)
	}
	for i, found := range []string{"1", "", want, "4", ""} {
		if string(f.Found[i]) != found {
			t.Errorf("Found[%d] = %s; want %s", i, f.Found[i], found)
		}
	}
	if f.Found[1] == nil || f.Found[4] != nil {
		t.Errorf("Found = %q; want an empty value for a rounded one, and nil for none", f.Found)
	}
	// A name twice is one time too often, even if it is ignored.
	if _, err := jcs.Canonical([]byte(`{"user":1,"user":2}`), p); err == nil {
		t.Error("an ignored field may be there twice")
	}
	for _, wrong := range []string{"user", "", "/a~", "/a~2", strings.Repeat("/x", 200)} {
		if _, err := jcs.NewPlan([]string{wrong}, nil); err == nil {
			t.Errorf("NewPlan(%q) has no error", wrong)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add(`{"b":[1.5e3,"\u00e9",{"x":null}],"a":true}`)
	f.Add(`[0.1,-0,1e22,"\ud83d\ude00"]`)
	f.Add(`{"a":1,"a":2}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := jcs.Canonical([]byte(text), nil)
		if err != nil {
			return
		}
		var before, after any
		if err := json.Unmarshal([]byte(text), &before); err != nil {
			t.Fatalf("%q has a form, but is not JSON: %v", text, err)
		}
		if err := json.Unmarshal(got.Text, &after); err != nil || !reflect.DeepEqual(before, after) {
			t.Fatalf("%q has the form %s: %v, means %v; want %v", text, got.Text, err, after, before)
		}
		again, err := jcs.Canonical(got.Text, nil)
		if err != nil || !bytes.Equal(again.Text, got.Text) || again.Lossy {
			t.Fatalf("the form of %s is %s, %v, lossy %v; want itself", got.Text, again.Text, err, again.Lossy)
		}
	})
}

// Programs that fold case read either of two such names: which of them counts is not known.
func TestNamesThatDifferOnlyInCaseHaveNoForm(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"query":1,"Query":2}`: false, `{"a":{"x":1,"X":2}}`: false, `{"key":1,"\u212aey":2}`: false, `{"s":1,"\u017f":2}`: false,
		`{"query":1,"Query2":2}`: true, `{"A":1,"B":2}`: true, `[{"a":1},{"A":1}]`: true,
	} {
		if _, err := jcs.Canonical([]byte(text), nil); (err == nil) != ok {
			t.Errorf("Canonical(%s) = %v; want a form: %v", text, err, ok)
		}
	}
}
