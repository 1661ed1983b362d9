package weirredis

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/fleet"
)

// All keys of the engine that belong to one fleet.Key have the same part in braces,
// so that a Cluster puts them in one slot:
//
//	weir:s:{namespace/name}            state: fence register, lease, cooling
//	weir:e:{namespace/name}            entry
//	weir:m:{namespace/name}            limit
//	weir:b:{namespace/name}            budget: units of cost
//	weir:r:{namespace/name}            its latest corrections
//	weir:p:{namespace/name}:b:17:9:5:v push: value, with the fence, the engine's time,
//	                                   microseconds of freshness, and the bytes
//	weir:p:{namespace/name}:c:17       push: changed, with the fence
//	weir:p:{namespace/name}:r:17       push: removed
//	weir:p:{namespace/name}:l:17       push: released
//	weir:t:{|namespace}                records of invalidations by tag
//	weir:p:{|namespace}:t:17:tag       push: tagged, with the number
//	weir:p:{|namespace}:x:17:tag       push: expired, with the number
//	weir:i:{|}                         instances that have announced themselves
//
// Names are any bytes. Bytes used by this format, and those that are not printable,
// are written as %XX, so that no two names look alike. In a namespace slashes are
// escaped too, so the first slash in the braces ends it.

const (
	inName      = "%{}\"\\"
	inNamespace = inName + "/|"
)

// appendEscaped appends s with the bytes of special, and all that are not
// printable ASCII, as %XX.
func appendEscaped(b []byte, s, special string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c > '~' || strings.IndexByte(special, c) >= 0 {
			b = append(b, '%', digits[c>>4], digits[c&15])
			continue
		}
		b = append(b, c)
	}
	return b
}

// unescape reverses appendEscaped. It reports false for a string that appendEscaped
// cannot have written.
func unescape(s string) (string, bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if len(s)-i < 3 {
			return "", false
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b = append(b, byte(c))
		i += 2
	}
	return string(b), true
}

// keyTag returns the part of a key's names in braces, including the braces.
func keyTag(k fleet.Key) string {
	b := make([]byte, 0, len(k.Namespace)+len(k.Name)+3)
	b = appendEscaped(append(b, '{'), k.Namespace, inNamespace)
	b = appendEscaped(append(b, '/'), k.Name, inName)
	return string(append(b, '}'))
}

// namespaceTag returns the same for a whole namespace. It has no slash.
func namespaceTag(namespace string) string {
	return string(append(appendEscaped([]byte("{|"), namespace, inNamespace), '}'))
}

// Kinds of pushes, as in the names above. The scripts write them.
const (
	pushValue    = "b"
	pushChanged  = "c"
	pushRemoved  = "r"
	pushReleased = "l"
	pushTagged   = "t"
	pushExpired  = "x"
)

// A push is the message in the name of a key.
type push struct {
	kind      string
	namespace string
	name      string // of the key, or the tag
	number    uint64 // the fence, or the invalidation's number

	// Of a value.
	now   uint64
	fresh time.Duration
	data  string
}

// parsePush reads the name of a key, without the prefix up to "p:". It reports
// false for one that the scripts do not write.
func parsePush(s string) (p push, ok bool) {
	place, rest, ok := strings.Cut(s, "}:")
	if !ok || !strings.HasPrefix(place, "{") {
		return push{}, false
	}
	kind, number, ok := strings.Cut(rest, ":")
	if !ok {
		return push{}, false
	}
	p.kind = kind
	space, name, isKey := strings.Cut(place[1:], "/")
	switch {
	case kind == pushTagged || kind == pushExpired:
		if space, ok = strings.CutPrefix(space, "|"); isKey || !ok {
			return push{}, false
		}
		if number, name, ok = strings.Cut(number, ":"); !ok {
			return push{}, false
		}
	case isKey && kind == pushValue:
		if number, ok = p.readValue(number); !ok {
			return push{}, false
		}
	case !isKey || kind != pushChanged && kind != pushRemoved && kind != pushReleased:
		return push{}, false
	}
	var err error
	if p.number, err = strconv.ParseUint(number, 10, 64); err != nil {
		return push{}, false
	}
	var okSpace, okName bool
	p.namespace, okSpace = unescape(space)
	p.name, okName = unescape(name)
	return p, okSpace && okName
}

// readValue reads what follows the kind of a value's push, and returns its fence.
func (p *push) readValue(s string) (fence string, ok bool) {
	fence, s, _ = strings.Cut(s, ":")
	now, s, _ := strings.Cut(s, ":")
	fresh, data, ok := strings.Cut(s, ":")
	if !ok {
		return "", false
	}
	const most = math.MaxInt64 / int64(time.Microsecond)
	n, errNow := strconv.ParseUint(now, 10, 64)
	us, errFresh := strconv.ParseInt(fresh, 10, 64)
	p.now, p.fresh, p.data = n, time.Duration(min(max(us, -most), most))*time.Microsecond, data
	return fence, errNow == nil && errFresh == nil
}

// tell calls the method of w for p.
func (p push) tell(w fleet.Watcher) {
	switch p.kind {
	case pushValue:
		w.Pushed(p.name, fleet.Entry{Data: []byte(p.data), Fence: p.number, Fresh: p.fresh}, p.now)
	case pushChanged, pushRemoved:
		w.Changed(p.name, p.number, p.kind == pushRemoved)
	case pushReleased:
		w.Released(p.name)
	case pushTagged:
		w.Tagged(p.name, p.number)
	case pushExpired:
		w.Expired(p.name, p.number)
	}
}
