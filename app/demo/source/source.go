// Package source is the target of the demo's expensive call: the interface that the tile
// renderer and the PostgreSQL table implement, and the Meter that counts the calls.
package source

import "context"

// A Source does real work for a key. It is safe for concurrent use.
type Source interface {
	// Load does the work for key, in [0, keys), and returns the response: always the same
	// bytes for the same key. It calls m.Begin once the work itself starts, after any wait
	// for a turn, and returns soon after ctx ends.
	Load(ctx context.Context, key int, m *Meter) ([]byte, error)

	// ContentType returns the media type of the responses.
	ContentType() string
}
