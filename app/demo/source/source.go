// Package source is what the demo's expensive call reaches: the interface
// that the tile renderer and the PostgreSQL table share, and the Meter that
// counts what arrives there.
package source

import "context"

// A Source does real work for a key. It is safe for concurrent use.
type Source interface {
	// Load does the work for key, which lies in [0, keys), and returns the
	// answer: the same bytes for the same key, every time. It calls m.Begin
	// once the work itself starts, after any wait for a turn, and returns
	// soon after ctx ends.
	Load(ctx context.Context, key int, m *Meter) ([]byte, error)

	// ContentType is the media type of the answers.
	ContentType() string
}
