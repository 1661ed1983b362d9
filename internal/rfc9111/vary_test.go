package rfc9111_test

import (
	"net/http"
	"testing"

	"github.com/weir-go/weir/internal/rfc9111"
)

func TestH10_SelectingComparesFields(t *testing.T) {
	tests := []struct {
		name string
		vary []string
		a, b http.Header
		want bool
	}{
		{"the same", []string{"Foo"}, fields("Foo", "1"), fields("Foo", "1", "Bar", "2"), true},
		{"another", []string{"Foo"}, fields("Foo", "1"), fields("Foo", "2"), false},
		{"absent once", []string{"Foo"}, fields("Foo", "1"), noFields, false},
		{"absent twice", []string{"Foo"}, noFields, noFields, true},
		{"absent or empty", []string{"Foo"}, noFields, fields("Foo", ""), false},
		{"one of three", []string{"Bar", "Baz", "Foo"}, fields("Foo", "1", "Bar", "abc", "Baz", "789"), fields("Foo", "1", "Bar", "abcde", "Baz", "789"), false},
		{"moved from one to the next", []string{"Bar", "Foo"}, fields("Bar", "ab", "Foo", "c"), fields("Bar", "a", "Foo", "bc"), false},
		{"made to look like two", []string{"Bar", "Foo"}, fields("Bar", "x1:y"), fields("Bar", "x", "Foo", "y"), false},
		{"lines combine", []string{"Foo"}, fields("Foo", "1, 2"), fields("Foo", "1", "Foo", "2"), true},
		{"blanks", []string{"Foo"}, fields("Foo", "1,2"), fields("Foo", " 1 ,\t2 "), true},
		{"blanks within", []string{"Foo"}, fields("Foo", "1 2"), fields("Foo", "12"), false},
		{"order", []string{"Foo"}, fields("Foo", "1,2"), fields("Foo", "2,1"), false},
		{"case", []string{"Foo"}, fields("Foo", "a"), fields("Foo", "A"), false},
		{"an empty member", []string{"Foo"}, fields("Foo", "1,,2"), fields("Foo", "1,2"), false},
		{"blanks in quotes", []string{"Foo"}, fields("Foo", `"1,2"`), fields("Foo", `"1, 2"`), false},
		{"Authorization as it is", []string{"Authorization"}, fields("Authorization", "a,b"), fields("Authorization", "a, b"), false},
		{"Authorization in lines", []string{"Authorization"}, fields("Authorization", "a, b"), fields("Authorization", "a", "Authorization", "b"), false},
		{"Cookie as it is", []string{"Cookie"}, fields("Cookie", "a=1"), fields("Cookie", "a=1"), true},
		{"Cookie, absent or empty", []string{"Cookie"}, noFields, fields("Cookie", ""), false},
		{"a cookie", []string{"cookie:lang"}, fields("Cookie", "lang=de; a=1"), fields("Cookie", "b=2;lang=de"), true},
		{"a cookie in another line", []string{"cookie:lang"}, fields("Cookie", "lang=de; a=1"), fields("Cookie", "b=2", "Cookie", "lang=de"), true},
		{"a cookie with another value", []string{"cookie:lang"}, fields("Cookie", "lang=de"), fields("Cookie", "lang=en"), false},
		{"a cookie, case of its name", []string{"cookie:lang"}, fields("Cookie", "lang=de"), fields("Cookie", "Lang=de"), false},
		{"a cookie that is part of another", []string{"cookie:lang"}, noFields, fields("Cookie", "xlang=de; y=lang=de"), true},
		{"a cookie twice", []string{"cookie:lang"}, fields("Cookie", "lang=de"), fields("Cookie", "lang=de; lang=en"), false},
		{"a cookie, absent or empty", []string{"cookie:lang"}, noFields, fields("Cookie", "lang="), false},
		{"a cookie, empty or bare", []string{"cookie:lang"}, fields("Cookie", "lang"), fields("Cookie", "lang="), false},
		{"forwarding fields, none", []string{"counts:f"}, fields("X-Forwarded-For", "1"), fields("X-Real-Ip", "2"), true},
		{"forwarding fields, the same", []string{"counts:f"}, fields("X-Forwarded-Host", "a", "X-Scheme", "b"), fields("X-Scheme", "b", "X-Forwarded-Host", "a"), true},
		{"forwarding fields, only in one", []string{"counts:f"}, noFields, fields("X-Forwarded-Port", "1"), false},
		{"forwarding fields, only in the other", []string{"counts:f"}, fields("X-Forwarded-Port", "1"), noFields, false},
		{"forwarding fields, one more", []string{"counts:f"}, fields("X-Forwarded-Host", "a"), fields("X-Forwarded-Host", "a", "X-Forwarded-Any", ""), false},
		{"forwarding fields, another value", []string{"counts:f"}, fields("X-Forwarded-Host", "a"), fields("X-Forwarded-Host", "b"), false},
		{"forwarding fields, another name", []string{"counts:f"}, fields("X-Forwarded-Host", "a"), fields("X_Forwarded_Host", "a"), false},
		{"forwarding fields, made to look like the next", []string{"counts:f", "X-Z"}, fields("X-Forwarded-Host", "a"), fields("X-Z", "16:X-Forwarded-Host1:a"), false},
		{"nothing to compare", nil, fields("Foo", "1"), fields("Foo", "2"), true},
	}
	for _, tt := range tests {
		a, b := selecting(tt.vary, tt.a), selecting(tt.vary, tt.b)
		if (a == b) != tt.want {
			t.Errorf("%s: Selecting = %q and %q; want equal %v", tt.name, a, b, tt.want)
		}
		if got := matches(tt.vary, a, tt.b); got != tt.want {
			t.Errorf("%s: Matches(%q, %v) = %v; want %v", tt.name, a, tt.b, got, tt.want)
		}
		if !matches(tt.vary, a, tt.a) {
			t.Errorf("%s: Matches(%q, %v) = false; want true", tt.name, a, tt.a)
		}
	}
}

func TestMatchesOnlyWhatSelectingRenders(t *testing.T) {
	vary, h := []string{"Foo"}, fields("Foo", "a,b")
	for _, selected := range []string{"", "-", "4:a, b-", "04:a, b", "3:a,b", "4:a, ", "9999999999999999999999:a, b", "4", ":", "4:a, c"} {
		if matches(vary, selected, h) {
			t.Errorf("Matches(%q) = true; want false", selected)
		}
	}
	counting, from := []string{"counts:fu", "Foo"}, fields("X-Forwarded-Host", "a", "X-Any", "b")
	got := selecting(counting, from)
	for _, selected := range []string{"", "-", "--", got[1:], got[:len(got)-1], got + "-", "-" + got[33:]} {
		if matches(counting, selected, from) {
			t.Errorf("Matches(%q) = true; want false", selected)
		}
	}
	if !matches(counting, got, from) || len(got) != 1+32+1 {
		t.Errorf("Selecting = %q; want a digest, and nothing for Foo, which matches", got)
	}
	asked := rfc9111.ReadRequest(from)
	if n := testing.AllocsPerRun(10, func() { rfc9111.Matches(counting, got, &asked) }); n != 0 {
		t.Errorf("Matches allocates %v times; want 0", n)
	}
	if got := selecting(vary, h); got != "4:a, b" || !matches(vary, got, h) {
		t.Errorf("Selecting = %q; want 4:a, b, which matches", got)
	}
}

func TestH9_ForwardTakesOutWhatIsIgnored(t *testing.T) {
	tests := []struct {
		name    string
		p       rfc9111.Policy
		h, want http.Header
	}{
		{"nothing to ignore", rfc9111.Policy{}, fields("Cookie", "a=1", "X", "1"), fields("Cookie", "a=1", "X", "1")},
		{"a header", rfc9111.Policy{IgnoreHeaders: []string{"X", "Y"}}, fields("X", "1", "Z", "2"), fields("Z", "2")},
		{"a header with _", rfc9111.Policy{IgnoreHeaders: []string{"X-User-Id"}}, fields("X_User-Id", "1", "X_User_Id", "2", "X_User", "3"), fields("X_User", "3")},
		{"a header with _, by that name", rfc9111.Policy{IgnoreHeaders: []string{"X_user"}}, fields("X_User", "1", "X-User", "2"), fields("X-User", "2")},
		{"no such header", rfc9111.Policy{IgnoreHeaders: []string{"Y"}}, fields("X", "1"), fields("X", "1")},
		{"a cookie", rfc9111.Policy{IgnoreCookies: []string{"b"}}, fields("Cookie", `a="x y";  b=2; c=%zz`), fields("Cookie", `a="x y"; c=%zz`)},
		{"a cookie that is not there", rfc9111.Policy{IgnoreCookies: []string{"b"}}, fields("Cookie", "a=1;;c=b=2;"), fields("Cookie", "a=1;;c=b=2;")},
		{"the only cookie", rfc9111.Policy{IgnoreCookies: []string{"a"}}, fields("Cookie", "a=1; a=2", "X", "1"), fields("X", "1")},
		{"one line of two", rfc9111.Policy{IgnoreCookies: []string{"a"}}, fields("Cookie", "a=1", "Cookie", "b=2;c=3"), fields("Cookie", "b=2;c=3")},
		{"all cookies", rfc9111.Policy{IgnoreCookies: []string{"*"}}, fields("Cookie", "a=1; b"), http.Header{}},
		{"all but those that vary", rfc9111.Policy{IgnoreCookies: []string{"*"}, VaryCookies: []string{"lang"}}, fields("Cookie", "a=1; lang=de; b"), fields("Cookie", "lang=de")},
		{"nothing but those that vary", rfc9111.Policy{IgnoreCookies: []string{"*"}, VaryCookies: []string{"lang"}}, fields("Cookie", "lang=de;lang=en"), fields("Cookie", "lang=de;lang=en")},
		{"a cookie named star", rfc9111.Policy{IgnoreCookies: []string{"b"}}, fields("Cookie", "*=1"), fields("Cookie", "*=1")},
		{"the Cookie field", rfc9111.Policy{IgnoreHeaders: []string{"Cookie"}, IgnoreCookies: []string{"a"}}, fields("Cookie", "a=1; b=2"), http.Header{}},
	}
	for _, tt := range tests {
		before := tt.h.Clone()
		changes := !equalFields(tt.h, tt.want)
		if got := tt.p.Forward(tt.h, true); got != changes || !equalFields(tt.h, before) {
			t.Errorf("%s: Forward(dry) = %v, %v; want %v and nothing changed", tt.name, got, tt.h, changes)
		}
		line := tt.h["Cookie"]
		if got := tt.p.Forward(tt.h, false); got != changes || !equalFields(tt.h, tt.want) {
			t.Errorf("%s: Forward(%v) = %v, %v; want %v, %v", tt.name, before, got, tt.h, changes, tt.want)
		}
		if len(line) > 0 && line[0] != before["Cookie"][0] {
			t.Errorf("%s: Forward has modified the slice of Cookie: %q", tt.name, line)
		}
		if tt.p.Forward(tt.h, true) {
			t.Errorf("%s: Forward finds more to remove in its own output: %v", tt.name, tt.h)
		}
	}
}
