package inserts

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-go/weir/batch"
	"github.com/weir-go/weir/limit"
)

// An Outcome is what an insert's caller knows about its row.
type Outcome uint8

const (
	// Unknown: it may be there or not. The answer was lost, or the caller did
	// not wait for it.
	Unknown Outcome = iota
	// Stored: the insert was acknowledged.
	Stored
	// Absent: it was refused, and nothing of it is left.
	Absent
)

// OutcomeOf tells what err says about the row of an insert that was tried once,
// with ctx, by a statement or through a Batcher. After more than one try an
// error says nothing about the tries before it, unless those are known to have
// changed nothing.
func OutcomeOf(ctx context.Context, err error) Outcome {
	pg, answered := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil:
		return Stored
	case errors.Is(err, batch.ErrUnknown):
		return Unknown
	case errors.Is(err, limit.ErrLimited), errors.Is(err, batch.ErrClosed), errors.Is(err, batch.ErrStuck):
		return Absent // the Batcher did not take it
	case answered && pg.SeverityUnlocalized != "FATAL":
		return Absent // the statement failed, and its transaction with it
	case !answered && pgconn.SafeToRetry(err):
		return Absent // nothing was sent
	case err == context.Cause(ctx):
		return Absent // not even wrapped: it left before its batch did
	}
	// A FATAL error ends the connection, maybe after the commit.
	return Unknown
}

// BadRow reports whether err is the server's word that a row is to blame: bad
// data (class 22 of PostgreSQL's error codes) or a constraint (class 23). All
// that the statement had done is undone then, so the other rows of a batch may
// be sent again. It is what [batch.Source].Retry is for.
func BadRow(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23"))
}
