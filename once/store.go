package once

import (
	"context"
	"errors"
)

// A Store keeps Records. It must be safe for concurrent use. Whatever Put and Delete have
// returned without an error is durable, and was so before they returned.
//
// A Store for several processes finds out which of them are alive. Get replaces a claim of one
// that is not by an unknown record, with another Version: if the process is alive after all, it
// cannot change the record any more. Package oncetest has a suite that every Store passes.
//
// A record is never evicted before it expires: if there is no room, Put refuses a new one
// with ErrFull or ErrShare. The answer of a call always has room, because its claim has reserved it.
type Store interface {
	// Get returns the record of id, with Version 0 if there is none, or it has expired.
	Get(ctx context.Context, id Digest) (Stored, error)
	// Put replaces the record of id if its version is old, where 0 means that there is none.
	// It returns the new version. If another version is stored, the error is ErrConflict. If
	// the error is any other, the record may be stored or not.
	Put(ctx context.Context, id Digest, r Record, old uint64) (version uint64, err error)
	// Delete removes the record of id if its version is old.
	Delete(ctx context.Context, id Digest, old uint64) error
	// List returns at most most records in one of the states, without their answers, in no
	// order.
	List(ctx context.Context, most int, states ...State) ([]Stored, error)
	// Usage returns what is stored.
	Usage() Usage
}

// Usage is how full a Store is.
type Usage struct {
	Keys     int   `json:"keys"`      // keys in the store
	Claimed  int   `json:"claimed"`   // keys in the state Claimed
	Unknown  int   `json:"unknown"`   // keys in the state Unknown
	MaxKeys  int   `json:"max_keys"`  // most keys that it accepts
	Bytes    int64 `json:"bytes"`     // bytes in use, including what claims have reserved
	MaxBytes int64 `json:"max_bytes"` // most bytes that it accepts
}

// Errors of a Store.
var (
	// ErrConflict means that another version is stored.
	ErrConflict = errors.New("once: the record has changed in the meantime")
	// ErrFull means that there is no room for a new key.
	ErrFull = errors.New("once: the store of claims is full")
	// ErrShare means that the principal of a new key has used up its quarter of the store.
	ErrShare = errors.New("once: the principal has used up its quarter of the store of claims")
	// ErrStore is matched by errors of a Store that cannot read or write.
	ErrStore = errors.New("once: the store of claims is not usable")
)

// Share is the part of a Store, 1 in so many, that one principal can use.
const Share = 4
