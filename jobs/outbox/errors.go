package outbox

import (
	"errors"

	"github.com/weir-go/weir/jobs"
)

var (
	// ErrTooLarge is returned by Enqueue if the encoded input is larger than
	// QueueOptions.MaxInput. It is jobs.ErrTooLarge.
	ErrTooLarge = jobs.ErrTooLarge

	// ErrNotMigrated is returned by NewRelay if the table does not exist in the
	// schema, or is older than this package requires. Run Migrate.
	ErrNotMigrated = errors.New("outbox: the table is missing or too old; run Migrate")

	// ErrNotFound is returned by Table.Input if there is no such parked row.
	ErrNotFound = errors.New("outbox: not found")

	// ErrRunning is returned by Relay.Run if Run was called before.
	ErrRunning = errors.New("outbox: the relay was started before")

	// ErrClosed is returned by Relay.Run after Close.
	ErrClosed = errors.New("outbox: closed")
)
