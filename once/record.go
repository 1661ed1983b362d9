package once

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// A Digest stands for a key, a request or credentials, which are kept nowhere in clear.
type Digest [sha256.Size]byte

// String returns d in hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ParseDigest is the reverse of String.
func ParseDigest(text string) (d Digest, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(d) {
		return d, fmt.Errorf("once: %q is no ID: it must have %d hexadecimal digits", text, 2*len(d))
	}
	return Digest(b), nil
}

// Sum returns the Digest of parts, each with its length, so that no two lists have the
// same.
func Sum(parts ...string) (d Digest) {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(strconv.Itoa(len(p)) + ":" + p)) // a hash never fails
	}
	h.Sum(d[:0])
	return d
}

// A State is what is known of the call for a key.
type State uint8

// The states of decision 0135. A key without a record is absent: it was never claimed, or
// was freed, or has expired.
const (
	Absent   State = iota
	Claimed        // the call may have been sent; unknown unless it is still running
	Answered       // the answer is kept
	Done           // the call has run, and its answer is not kept
	Unknown        // whether the call took effect is unknown

	stateCount // with one more for a state of another version
)

var stateNames = [...]string{"absent", "claimed", "answered", "done", "unknown"}

// String returns the state as a word.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "invalid"
}

// A Record is what a Store keeps for a key.
type Record struct {
	State State `json:"state"` // what is known of the call
	// Route and Call are for operators: the name of the route, and the method and path of the
	// request, without its query.
	Route string `json:"route,omitempty"`
	Call  string `json:"call,omitempty"`
	// Fingerprint and Credentials identify the first request. A later request with the key must have the same
	// ones. Principal is the client whose share of the Store the record uses.
	Fingerprint Digest `json:"fingerprint"`
	Credentials Digest `json:"credentials"`
	Principal   Digest `json:"principal"`
	// Owner is the Claims that has the claim.
	Owner string `json:"owner,omitempty"`
	// Since is when the claim was taken. The record is forgotten at Expires.
	Since   time.Time `json:"since"`
	Expires time.Time `json:"expires"`
	// Reserve is the room that a claim holds for its answer, in bytes.
	Reserve int64 `json:"reserve,omitempty"`
	// Reason says why the state is Done or Unknown.
	Reason string `json:"reason,omitempty"`

	// Of the answer, if it is kept.
	Status  int         `json:"status,omitempty"`
	Header  http.Header `json:"header,omitempty"`
	Trailer http.Header `json:"trailer,omitempty"`
	Body    []byte      `json:"-"`
}

// A Stored is a Record in a Store.
type Stored struct {
	ID      Digest // digest of the key
	Version uint64 // never 0
	// Elsewhere: the record is a claim of other Claims, whose process was alive a moment ago and
	// may still end the call. Only a Store for several processes sets it.
	Elsewhere bool
	Record
}
