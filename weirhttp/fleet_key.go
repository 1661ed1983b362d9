package weirhttp

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// Keys have these names in the Tier:
//
//	u 4:http 12:shop.example /path?query          a URL
//	v FENCE HASH u 4:http ...                     one of its variants
//	b DIGEST u 4:http ...                         a read of that URL with a body
//	v FENCE HASH b DIGEST u 4:http ...            one of its variants
//
// without the blanks. FENCE is the fence of the mark at the URL, in 16 hexadecimal
// digits. A purge of the URL removes the mark, and so invalidates all of its
// variants. HASH covers the names and the selecting values: 32 digits of SHA-256. It
// is a hash because some values are secret (Policy.Vary with Authorization). DIGEST is
// Key.Body, in 64 digits: a name reveals nothing about a body but that two are equal.
// Such responses have the tag of the URL (readTag), by which a purge reaches them.

const (
	fenceDigits = 16
	hashDigits  = 32
	bodyDigits  = 2 * digestHalf
	maxURLName  = fleet.MaxName - 1 - fenceDigits - hashDigits
)

// nameOf returns the name of key, and false if key is too long for one.
func nameOf(key responses.Key) (string, bool) {
	if !fits(key) {
		return "", false
	}
	read := ""
	if key.Body != "" {
		read = "b" + hex.EncodeToString([]byte(key.Body))
	}
	return read + "u" + urlText(key), true
}

// urlText returns the URL of a key with length-prefixed parts.
func urlText(key responses.Key) string {
	return strconv.Itoa(len(key.Scheme)) + ":" + key.Scheme + strconv.Itoa(len(key.Host)) + ":" + key.Host + key.Target
}

// readTagMark begins the tags that weir adds. An origin cannot send such a tag.
const readTagMark = "\x1f"

// readTag returns the tag of all responses to reads with a body of a URL.
func readTag(url responses.Key) string { return readTagMark + urlText(url) }

// fits reports whether key has a name.
func fits(key responses.Key) bool {
	const lengths = 16 // digits and colons, and the u
	body := 0
	if key.Body != "" {
		body = 1 + bodyDigits
	}
	return body+len(key.Scheme)+len(key.Host)+len(key.Target) <= maxURLName-lengths
}

// variantOf returns the name of the variant that the request q selects, of the URL
// called name. names are the fields that the mark with that fence lists.
func variantOf(name string, fence uint64, names []string, q *rfc9111.Request) string {
	var b []byte
	for _, n := range names {
		b = append(binary.AppendUvarint(b, uint64(len(n))), n...)
	}
	b = append(append(b, 0), rfc9111.Selecting(names, q)...)
	sum := sha256.Sum256(b)
	digits := strconv.FormatUint(fence, 16)
	return "v" + strings.Repeat("0", fenceDigits-len(digits)) + digits + hex.EncodeToString(sum[:hashDigits/2]) + name
}

// placeOf returns the number by which the store knows a variant.
func placeOf(variant string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(variant)) // never fails
	return max(h.Sum64(), 1)
}

// parseName returns the key that name stands for. If name is that of a variant, it
// also returns its place.
func parseName(name string) (key responses.Key, place uint64, ok bool) {
	if strings.HasPrefix(name, "v") && len(name) > 1+fenceDigits+hashDigits {
		place = placeOf(name)
		name = name[1+fenceDigits+hashDigits:]
	}
	if strings.HasPrefix(name, "b") && len(name) > 1+bodyDigits {
		half, err := hex.DecodeString(name[1 : 1+bodyDigits])
		if err != nil {
			return key, 0, false
		}
		key.Body, name = string(half), name[1+bodyDigits:]
	}
	rest, ok := strings.CutPrefix(name, "u")
	if !ok {
		return key, 0, false
	}
	if key.Scheme, rest, ok = cutCounted(rest); !ok {
		return key, 0, false
	}
	if key.Host, key.Target, ok = cutCounted(rest); !ok {
		return key, 0, false
	}
	return key, place, true
}

// cutCounted cuts a length-prefixed text off s.
func cutCounted(s string) (text, rest string, ok bool) {
	digits, s, ok := strings.Cut(s, ":")
	n, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil || n > uint64(len(s)) {
		return "", "", false
	}
	return s[:n], s[n:], true
}
