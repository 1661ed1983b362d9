package weirredis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/fleet"
)

var oddNames = []string{"", "a", "/", "|", "|a", "a/b", "{", "}", "{}", "}:", "%", "%2", "%25", "%2F", "a b", "\x00", "\xff", "ü", ":c:1", "{|ns}", "\"\\", strings.Repeat("}", 100)}

// FuzzPush: a push has the names that a script writes, whatever they are, and the
// part in braces is one that a Cluster recognizes.
func FuzzPush(f *testing.F) {
	for i, a := range oddNames {
		f.Add(a, oddNames[(i+7)%len(oddNames)], uint64(i))
	}
	f.Fuzz(func(t *testing.T, namespace, name string, number uint64) {
		places := map[string]string{ // kind: how the script names it
			pushChanged:  keyTag(fleet.Key{Namespace: namespace, Name: name}) + fmt.Sprintf(":c:%d", number),
			pushRemoved:  keyTag(fleet.Key{Namespace: namespace, Name: name}) + fmt.Sprintf(":r:%d", number),
			pushReleased: keyTag(fleet.Key{Namespace: namespace, Name: name}) + fmt.Sprintf(":l:%d", number),
			pushValue:    keyTag(fleet.Key{Namespace: namespace, Name: name}) + fmt.Sprintf(":b:%d:7:-8:%s}:c:1", number, name),
			pushTagged:   namespaceTag(namespace) + fmt.Sprintf(":t:%d:", number) + string(appendEscaped(nil, name, inName)),
			pushExpired:  namespaceTag(namespace) + fmt.Sprintf(":x:%d:", number) + string(appendEscaped(nil, name, inName)),
		}
		for kind, s := range places {
			got, ok := parsePush(s)
			want := push{kind: kind, namespace: namespace, name: name, number: number}
			if kind == pushValue {
				want.now, want.fresh, want.data = 7, -8*time.Microsecond, name+"}:c:1"
				s = strings.TrimSuffix(s, want.data)
				if without, ok := parsePush(s[:len(s)-1]); ok {
					t.Errorf("parsePush of a cut value = %+v; want none", without)
				}
				s += want.data
			}
			if !ok || got != want {
				t.Errorf("parsePush(%q) = %+v, %v; want %+v", s, got, ok, want)
			}
			s = strings.TrimSuffix(s, want.data) // any bytes may follow the first braces
			if open, end := strings.IndexByte(s, '{'), strings.IndexByte(s, '}'); open != 0 || end < 2 || strings.Count(s, "{") != 1 || strings.Count(s, "}") != 1 {
				t.Errorf("%q: want one pair of braces around something", s)
			}
		}
	})
}

// FuzzParsePush: no key name makes parsePush panic, and a push that it accepts can be
// written as a name that parses to the same push.
func FuzzParsePush(f *testing.F) {
	for _, s := range []string{"", "{", "{}", "{a/b}", "{a/b}:c:1", "{|a}:t:1:b", "{|a}:x:1:b", "{a/b}:t:1:b", "{|a}:c:1", "{a/b}:x:1", "{a/b}:c:-1", "{a/b%}:c:1", "{a%4/b}:c:1", "{a%zz/b}:c:1", "{|a}:t:1", "{a}:t:1:b", "{a/b}:c:99999999999999999999", "{a/b}:b:1:2:3:v", "{a/b}:b:1:2:-3:", "{a/b}:b:1:2:3", "{a/b}:b::::", "{|a}:b:1:2:3:v"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, ok := parsePush(s)
		if !ok {
			return
		}
		again := keyTag(fleet.Key{Namespace: p.namespace, Name: p.name}) + fmt.Sprintf(":%s:%d", p.kind, p.number)
		if p.kind == pushValue {
			again += fmt.Sprintf(":%d:%d:%s", p.now, p.fresh.Microseconds(), p.data)
		}
		if p.kind == pushTagged || p.kind == pushExpired {
			again = namespaceTag(p.namespace) + fmt.Sprintf(":%s:%d:", p.kind, p.number) + string(appendEscaped(nil, p.name, inName))
		}
		if q, ok := parsePush(again); !ok || q != p {
			t.Errorf("parsePush(%q) = %+v, and of the name for that %+v, %v", s, p, q, ok)
		}
	})
}

// No two keys have the same place.
func TestKeysAreInjective(t *testing.T) {
	seen := make(map[string]string)
	note := func(tag, what string) {
		if was, ok := seen[tag]; ok {
			t.Errorf("%s and %s are both %q", was, what, tag)
		}
		seen[tag] = what
	}
	for _, namespace := range oddNames {
		note(namespaceTag(namespace), fmt.Sprintf("namespace %q", namespace))
		for _, name := range oddNames {
			note(keyTag(fleet.Key{Namespace: namespace, Name: name}), fmt.Sprintf("key %q in %q", name, namespace))
		}
	}
}

// T14: these names were written by a released or earlier version, or are those of this
// one, and are read as they were. A version ignores kinds that it does not know.
func TestT14_GoldenPushes(t *testing.T) {
	for name, want := range map[string]string{
		"{ns/a%20b}:c:17":            "changed a b 17 false",
		"{ns/k}:r:18":                "changed k 18 true",
		"{ns/k}:l:18":                "released k",
		"{|ns}:t:19:a%2F%7D":         "tagged a/} 19",
		"{|ns}:x:20:":                "expired  20",
		"{ns/k}:b:17:1:60000000:v:}": "pushed k 17 v:}",
		"{ns/k}:y:17":                "",
		"{ns/k}:bb:17:1:2:v":         "",
		"{|ns}:y:17:k":               "",
	} {
		h, _ := testHub()
		n := &notes{t: t}
		h.watch("ns", n)
		n.take()
		h.pushed("weir:p:" + name)
		if got := strings.Join(n.take(), ", "); got != want {
			t.Errorf("%s calls %q; want %q", name, got, want)
		}
	}
}
