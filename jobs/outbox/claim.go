package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// A row is a claimed row.
type row struct {
	seq                        int64
	id                         string
	input                      []byte // nil: it is larger than the queue accepts
	size, version, tries       int
	serial, owner, fingerprint string

	// Microseconds at the claim, by PostgreSQL's clock: since the first earlier try,
	// and until the row's instants. Invalid: there is none.
	tried, notBefore, deadline sql.NullInt64
	finite                     bool // none of the instants is infinite

	verdict verdict // of the submission; written by one goroutine of batch.submit
}

// data returns the input, which is never nil: nil has no encoding.
func (r *row) data() []byte {
	if r.input == nil {
		return []byte{}
	}
	return r.input
}

// A batch is a number of rows of a queue under one claim.
type batch struct {
	l     *lane
	claim string
	rows  []*row
	since time.Time // before the claim; the claim holds for Lease from here at least

	mu    sync.Mutex
	pause time.Duration // guarded by mu; the queue is full
	full  error         // guarded by mu; why
	err   error         // guarded by mu; the server does not respond
}

// claim claims the next rows. The transaction is READ COMMITTED, whatever the database's
// default is: at the other levels, claims of several relays would fail.
func (l *lane) claim(ctx context.Context) (*batch, error) {
	o := &l.r.o
	ctx, cancel := context.WithTimeout(ctx, sqlTimeout)
	defer cancel()
	b := &batch{l: l, claim: randomID(), since: time.Now()}
	tx, err := l.r.t.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, fmt.Errorf("outbox: claim: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	rows, err := tx.QueryContext(ctx, l.r.t.sql.claim, l.name, b.claim, o.Batch, o.Lease.Microseconds(), o.MaxBatchBytes, l.o.MaxInput)
	if err == nil {
		err = b.scan(rows)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return nil, fmt.Errorf("outbox: claim: %w", err)
	}
	slices.SortFunc(b.rows, func(x, y *row) int { return cmp.Compare(x.seq, y.seq) })
	return b, nil
}

// sqlTimeout bounds each transaction of a Relay.
const sqlTimeout = 10 * time.Second

func (b *batch) scan(rows *sql.Rows) error {
	defer rows.Close()
	for rows.Next() {
		r := &row{}
		if err := rows.Scan(&r.seq, &r.id, &r.input, &r.size, &r.version, &r.serial, &r.owner, &r.fingerprint, &r.tries,
			&r.tried, &r.notBefore, &r.deadline, &r.finite); err != nil {
			return err
		}
		b.rows = append(b.rows, r)
	}
	return rows.Err()
}

// finish deletes the rows that have become jobs, parks others, and releases the rest, in
// one transaction. It runs even if ctx has ended. All statements name the claim, so a
// row that another relay has claimed since is left to it.
func (b *batch) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sqlTimeout)
	defer cancel()
	var gone, released, untried, failed []int64
	var parked []*row
	for _, r := range b.rows {
		switch r.verdict.kind {
		case verdictJob:
			gone = append(gone, r.seq)
			continue
		case verdictParked:
			parked = append(parked, r)
			continue
		case verdictUntried:
			untried = append(untried, r.seq)
		case verdictFailed:
			failed = append(failed, r.seq)
		}
		released = append(released, r.seq)
	}
	db, s := b.l.r.t.db, &b.l.r.t.sql
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return fmt.Errorf("outbox: delete: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if len(gone) > 0 {
		_, err = tx.ExecContext(ctx, s.remove, b.l.name, array(gone), b.claim)
	}
	if err == nil && len(released) > 0 {
		_, err = tx.ExecContext(ctx, s.release, b.l.name, array(released), b.claim, array(untried), array(failed))
	}
	for _, r := range parked {
		if err == nil {
			_, err = tx.ExecContext(ctx, s.park, b.l.name, r.seq, b.claim, string(r.verdict.reason), clip(r.verdict.err))
		}
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return fmt.Errorf("outbox: delete: %w", err)
	}
	b.l.r.counts.released.Add(uint64(len(released)))
	for _, r := range parked {
		b.l.r.event(ctx, Event{Kind: EventParked, Queue: b.l.name, ID: r.id, Reason: r.verdict.reason, Err: r.verdict.err})
	}
	return nil
}

// clip returns the text of an error for ParkedRow.Detail, which PostgreSQL can store.
func clip(err error) string {
	if err == nil {
		return ""
	}
	s := err.Error()
	if len(s) > MaxDetail {
		s = s[:MaxDetail]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
}
