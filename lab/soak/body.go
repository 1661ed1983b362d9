package soak

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// A body begins with a line that names its owner (a path, and for authorized pages
// also the user) and its version. The rest is computed from that line.

// bodyOf returns the body of an owner's version, with n bytes after the first line.
func bodyOf(owner string, version int64, n int) []byte {
	head := fmt.Sprintf("%s v%d %d\n", owner, version, n)
	b := make([]byte, len(head), len(head)+n)
	copy(b, head)
	return append(b, padding(head, n)...)
}

// padding returns n bytes that are unique to this head.
func padding(head string, n int) []byte {
	sum := sha256.Sum256([]byte(head))
	r := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum[:8]), binary.LittleEndian.Uint64(sum[8:16])))
	p := make([]byte, n)
	for i := 0; i < n; i += 8 {
		var eight [8]byte
		binary.LittleEndian.PutUint64(eight[:], r.Uint64())
		copy(p[i:], eight[:])
	}
	return p
}

// versionOf checks a complete body and returns its version.
func versionOf(body []byte, owner string) (int64, error) {
	head, rest, ok := strings.Cut(string(body), "\n")
	if !ok {
		return 0, fmt.Errorf("no first line in %d bytes", len(body))
	}
	name, after, _ := strings.Cut(head, " v")
	if name != owner {
		return 0, fmt.Errorf("the body of %q, requested %q", clip(name), owner)
	}
	v, size, _ := strings.Cut(after, " ")
	version, err := strconv.ParseInt(v, 10, 64)
	n, err2 := strconv.Atoi(size)
	if err != nil || err2 != nil || n != len(rest) {
		return 0, fmt.Errorf("%q and %d bytes", clip(head), len(rest))
	}
	if string(padding(head+"\n", n)) != rest {
		return 0, fmt.Errorf("%q with bytes of another body", clip(head))
	}
	return version, nil
}

// partOf checks a range of a body with size bytes after the first line. It returns
// the version, at most most, that the bytes belong to.
func partOf(part []byte, owner string, first, size int, most int64) (int64, error) {
	for v := most; v > 0; v-- {
		whole := bodyOf(owner, v, size)
		if first+len(part) <= len(whole) && string(whole[first:first+len(part)]) == string(part) {
			return v, nil
		}
	}
	return 0, fmt.Errorf("%d bytes at %d match no version of %s up to %d", len(part), first, owner, most)
}

// clip shortens a body for display.
func clip(s string) string { return s[:min(len(s), 80)] }
