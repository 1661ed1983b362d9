package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/plain"
)

const (
	// maxKey is the maximum number of bytes of a key that are shown.
	maxKey = 256
	// digestBytes are enough to distinguish the keys of a page, and few enough to
	// compare by eye.
	digestBytes = 6
)

// keys formats keys for display.
type keys struct {
	show   bool
	secret [32]byte // so that a digest cannot be reversed by trying keys
}

func newKeys(show bool) keys {
	k := keys{show: show}
	_, _ = rand.Read(k.secret[:]) // never fails
	return k
}

// text returns the key, or a digest of it.
func (k *keys) text(key any) string {
	if !k.show {
		h := hmac.New(sha256.New, k.secret[:])
		fmt.Fprintf(h, "%#v", key)
		return "#" + hex.EncodeToString(h.Sum(nil)[:digestBytes])
	}
	s, ok := key.(string)
	if !ok {
		s = fmt.Sprint(key)
	}
	return plain.Bounded(plain.Line(s), maxKey)
}

// hot formats hot keys; total is the sum over all keys.
func (k *keys) hot(hot []inspect.HotKey, total float64) []HotKey {
	out := make([]HotKey, len(hot))
	for i, h := range hot {
		out[i] = HotKey{Name: k.text(h.Key), Rate: h.Rate, Excess: h.Excess}
		if total > 0 {
			out[i].Share = min(h.Rate/total, 1)
		}
	}
	return out
}
