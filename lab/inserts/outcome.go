package inserts

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-go/weir/batch"
	"github.com/weir-go/weir/limit"
)

// An Outcome is what the caller of an insert knows about its row.
type Outcome uint8

const (
	// Unknown: it may be stored or not. The response was lost, or the caller did not
	// wait for it.
	Unknown Outcome = iota
	// Stored: the insert was acknowledged.
	Stored
	// Absent: it was rejected without a trace.
	Absent
)

// OutcomeOf derives from err the outcome of an insert that was tried once, with ctx,
// as a statement or through a Batcher. After more than one try an error says nothing
// about earlier tries, unless those are known to have changed nothing.
func OutcomeOf(ctx context.Context, err error) Outcome {
	pg, answered := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil:
		return Stored
	case errors.Is(err, batch.ErrUnknown):
		return Unknown
	case errors.Is(err, limit.ErrLimited), errors.Is(err, batch.ErrClosed), errors.Is(err, batch.ErrStuck):
		return Absent // the Batcher did not accept it
	case answered && pg.SeverityUnlocalized != "FATAL":
		return Absent // the statement failed, and with it its transaction
	case !answered && pgconn.SafeToRetry(err):
		return Absent // nothing was sent
	case err == context.Cause(ctx):
		return Absent // not wrapped: the caller left before its batch was sent
	}
	// A FATAL error ends the connection, possibly after the commit.
	return Unknown
}

// BadRow reports whether the server blames a row in err: bad data (class 22 of
// PostgreSQL's error codes) or a constraint (class 23). The statement has then been
// rolled back, so the other rows of a batch may be sent again. Use it as
// [batch.Source].Retry.
func BadRow(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23"))
}
