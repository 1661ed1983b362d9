package quota

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
)

// digest returns the name under which the engine counts key, which may be an address or a
// credential of a client: SHA-256, in 43 characters. It is the same on all instances, and
// another one in each namespace, so a reader of the engine cannot tell that one client uses
// two of them. It is no secret: a reader can test guesses, such as all IPv4 addresses.
func digest(namespace, key string) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(len(namespace)) + " " + namespace + key))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
