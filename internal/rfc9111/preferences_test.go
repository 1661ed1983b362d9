package rfc9111_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestH29_VaryComparesByMeaning(t *testing.T) {
	const language, encoding, accept = "Accept-Language", "Accept-Encoding", "Accept"
	tests := []struct {
		name, field, a, b string
		want              bool
	}{
		{"case", language, "en-US, de", "EN-us, De", true},
		{"order of equals", language, "en, de", "de, en", false},
		{"order of weights", language, "de;q=0.5, en", "en, de;q=0.5", true},
		{"order of equals, media", accept, "application/json, text/html", "text/html, application/json", false},
		{"order of equals, codings", encoding, "gzip, br", "br, gzip", true},
		{"order with weights", language, "en;q=0.5, de", "de,en;q=0.5", true},
		{"blanks", language, "en, de", " en ,   de\t", true},
		{"blanks around a weight", language, "en;q=0.5", "en ; Q=0.5", true},
		{"the default weight", language, "en", "en;q=1.000", true},
		{"zeros of a weight", language, "en;q=0.5", "en;q=0.500", true},
		{"zero", language, "en, de;q=0", "en, de;q=0.000", true},
		{"zero or absent", language, "en, de;q=0", "en", false},
		{"another weight", language, "en;q=0.5", "en;q=0.501", false},
		{"another order of weights", language, "en, de;q=0.9", "de, en;q=0.9", false},
		{"twice", language, "en, de, EN", "en, de", true},
		{"twice with two weights", language, "en;q=0.2, en", "en, en;q=0.2", false},
		{"twice with two weights or once", language, "en;q=0.2, en", "en", false},
		{"twice with two weights or with the first", language, "en;q=0.2, en", "en;q=0.2", false},
		{"zero or one", language, "en;q=0", "en", false},
		{"empty elements", language, ",en,, de,", "en,de", true},
		{"nothing but a comma", language, ",", "", false},
		{"any", language, "*", "*;q=1", true},
		{"any and one", language, "*, en", "en", false},
		{"another language", language, "en", "en-gb", false},
		{"not a language", language, "en_US, de", "de, en_US", false},
		{"not a language, case", language, "en_US", "en_us", false},
		{"a language that is too long", language, "abcdefghi", "ABCDEFGHI", false},
		{"not a weight", language, "en;q=.5, de", "de, en;q=.5", false},
		{"a weight above 1", language, "en;q=1.1", "EN;q=1.1", false},
		{"a weight with four digits", language, "en;q=0.1234", "EN;q=0.1234", false},
		{"no weight", language, "en;q=", "EN;q=", false},
		{"an unknown parameter", language, "en;x=1", "EN;x=1", false},
		{"coding, case", encoding, "gzip, BR", "br,GZIP", true},
		{"coding, an alias", encoding, "gzip", "x-gzip", false},
		{"coding, identity refused", encoding, "gzip, identity;q=0", "identity;q=0.0,gzip", true},
		{"coding, any refused", encoding, "gzip, *;q=0", "gzip", false},
		{"coding, a blank within", encoding, "g zip", "G zip", false},
		{"media, case", accept, "Text/HTML, */*;q=0.8", "*/*;q=0.8,text/html", true},
		{"media, case of a parameter", accept, "text/html;level=A", "text/html;level=a", false},
		{"media, a parameter", accept, "text/html;level=1", "text/html", false},
		{"media, a parameter and a weight", accept, "text/html;level=1;q=0.50, a/b", "a/b,TEXT/html;level=1;q=0.5", true},
		{"media, order of parameters", accept, "text/html;a=1;b=2", "text/html;b=2;a=1", false},
		{"media, after the weight", accept, "text/html;q=0.5;x=1", "TEXT/html;q=0.5;x=1", false},
		{"media, quoted", accept, `text/html;a="b, c"`, `TEXT/html;a="b, c"`, false},
		{"media, any subtype", accept, "text/*", "TEXT/*", true},
		{"media, any type with a subtype", accept, "*/html", "*/HTML", false},
		{"media, no subtype", accept, "text", "TEXT", false},
		{"another field", "Accept-Charset", "a, b", "b, a", false},
	}
	for _, tt := range tests {
		vary, a, b := []string{tt.field}, fields(tt.field, tt.a), fields(tt.field, tt.b)
		first, second := selecting(vary, a), selecting(vary, b)
		if (first == second) != tt.want {
			t.Errorf("%s: Selecting = %q and %q; want equal %v", tt.name, first, second, tt.want)
		}
		if got := matches(vary, first, b); got != tt.want {
			t.Errorf("%s: Matches(%q, %q) = %v; want %v", tt.name, first, tt.b, got, tt.want)
		}
		if !matches(vary, first, a) || !matches(vary, second, b) {
			t.Errorf("%s: a request does not match its own encoding %q, %q", tt.name, first, second)
		}
	}
}

func TestH29_VaryFormsOfAField(t *testing.T) {
	vary := []string{"Accept-Language", "X"}
	two := http.Header{"Accept-Language": {"en", "de;q=0.5"}, "X": {"1"}}
	one := http.Header{"Accept-Language": {"de;q=0.5,en"}, "X": {"1"}}
	if a, b := selecting(vary, two), selecting(vary, one); a != b || a != "12:en, de;q=0.51:1" {
		t.Errorf("Selecting of two lines and of one = %q and %q; want both 12:en, de;q=0.51:1", a, b)
	}
	absent, empty := selecting(vary, http.Header{}), selecting(vary, http.Header{"Accept-Language": {""}})
	if absent != "--" || empty != "0:-" {
		t.Errorf("Selecting of an absent and an empty field = %q and %q; want -- and 0:-", absent, empty)
	}
	// Beyond the bounds, bytes are compared.
	for _, long := range []string{"A" + strings.Repeat(", a", 200), manyLanguages(25)} {
		if matches(vary[:1], selecting(vary[:1], fields("Accept-Language", long)), fields("Accept-Language", strings.ToUpper(long))) {
			t.Errorf("Matches ignores the case of %d bytes; want it to compare bytes", len(long))
		}
	}
	h := fields("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
		"Accept-Language", manyLanguages(24), "Accept-Encoding", "gzip, deflate, br, zstd")
	all := []string{"Accept", "Accept-Encoding", "Accept-Language"}
	selected := selecting(all, h)
	if n := testing.AllocsPerRun(100, func() {
		if !matches(all, selected, h) {
			t.Error("Matches = false; want true")
		}
	}); n != 0 {
		t.Errorf("Matches allocates %v times; want 0", n)
	}
}

func manyLanguages(n int) string {
	var all []string
	for i := range n {
		all = append(all, "a"+string(rune('a'+i)))
	}
	return strings.Join(all, ", ")
}

// FuzzPreferences: fields that match mean the same, to a reader that is written in
// another way; and the encoding is a form of the field that means the same.
func FuzzPreferences(f *testing.F) {
	for _, s := range []string{"", "en", "en, de;q=0.5", "de;q=0.5,EN", "en;q=0,*", "gzip;q=1.0,br", "a/b;c=d;q=0.3", "en;q=0.2,en", ",,", "text/html;q=1;q=1", "a;;q=1"} {
		f.Add(s, "en;q=1, de;q=0.50")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.ContainsAny(a+b, "\r\n") {
			return
		}
		for _, name := range []string{"Accept", "Accept-Encoding", "Accept-Language"} {
			vary := []string{name}
			x, y := selecting(vary, http.Header{name: {a}}), selecting(vary, http.Header{name: {b}})
			if match := matches(vary, x, http.Header{name: {b}}); match != (x == y) {
				t.Errorf("%s: Matches(%q, %q) = %v, but the encodings are %q and %q", name, a, b, match, x, y)
			}
			if x == y && !slices.Equal(meaning(name, a), meaning(name, b)) {
				t.Errorf("%s: %q and %q match, but mean %q and %q", name, a, b, meaning(name, a), meaning(name, b))
			}
			_, form, _ := strings.Cut(x, ":")
			if again := selecting(vary, http.Header{name: {form}}); again != x {
				t.Errorf("%s: %q is encoded as %q, and that as %q", name, a, x, again)
			}
		}
	})
}

// meaning returns the members of a field, each once, with their weights. Members
// that it cannot read are kept with their case.
func meaning(name, s string) []string {
	var all []string
	for _, m := range strings.Split(s, ",") {
		m = strings.Trim(m, " \t")
		if m == "" {
			continue
		}
		what, q, found := strings.Cut(m, ";")
		weight, isWeight := strings.CutPrefix(strings.ToLower(strings.Trim(q, " \t")), "q=")
		if found && name == "Accept" && !isWeight { // with parameters: only the type ignores case
			i := strings.LastIndex(m, ";")
			if weight, isWeight = strings.CutPrefix(strings.ToLower(strings.Trim(m[i+1:], " \t")), "q="); isWeight {
				m = strings.Trim(m[:i], " \t")
			}
			kind, rest, _ := strings.Cut(m, ";")
			what = strings.ToLower(kind) + ";" + rest
		} else {
			what = strings.ToLower(strings.Trim(what, " \t"))
			if found && !isWeight {
				what += ";" + q
			}
		}
		if isWeight && strings.Contains(weight, ".") {
			weight = strings.TrimRight(strings.TrimRight(weight, "0"), ".")
		}
		if !isWeight || weight == "1" {
			weight = ""
		}
		all = append(all, what+" "+weight)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
