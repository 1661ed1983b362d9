package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Reason is why a row was parked.
type Reason string

const (
	// ReasonConflict: the job with the row's ID has another input.
	ReasonConflict Reason = "conflict"
	// ReasonTooLarge: the input is larger than the queue accepts.
	ReasonTooLarge Reason = "too large"
	// ReasonUnknownQueue: no Relay has the queue, for RelayOptions.UnknownAfter.
	ReasonUnknownQueue Reason = "unknown queue"
	// ReasonExpired: the row's Deadline passed before it could be submitted.
	ReasonExpired Reason = "expired"
	// ReasonInvalid: package jobs refuses the row's options, or not_before, deadline or
	// tried_at is infinite.
	ReasonInvalid Reason = "invalid"
	// ReasonDoubtful: the job may have been submitted, run and forgotten, so a
	// submission could run it twice.
	ReasonDoubtful Reason = "doubtful"
	// ReasonFailing: RelayOptions.MaxTries submissions failed; Detail is the last error.
	ReasonFailing Reason = "failing"
)

// A Table is the outbox of a schema, for people and tools: it lists parked rows,
// retries and deletes them, and counts what waits. It needs no Relay. It is safe for
// concurrent use.
type Table struct {
	db     *sql.DB
	schema string
	sql    statements
}

// TableOptions configure a Table. The zero TableOptions are the defaults.
type TableOptions struct {
	// Schema is the schema of the table. Empty: the connection's search path.
	Schema string
}

// NewTable returns the Table in a database, which the caller keeps. It sends nothing to
// the database.
func NewTable(db *sql.DB, o TableOptions) (*Table, error) {
	f := newFaults("TableOptions.")
	f.schema(o.Schema)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Table{db: db, schema: o.Schema, sql: newStatements(o.Schema)}, nil
}

// A ParkedRow is a row that was not submitted.
type ParkedRow struct {
	Seq      int64     `json:"seq"`               // identifies the row for Retry, Delete and Input
	Queue    string    `json:"queue"`             // name of the queue
	ID       string    `json:"id"`                // ID of the row
	Version  int       `json:"version,omitempty"` // version of the input
	Size     int       `json:"size"`              // of the input, in bytes
	Owner    string    `json:"owner,omitempty"`   // SubmitOptions.Owner
	Enqueued time.Time `json:"enqueued"`          // zero: not in the years 1 to 9999
	Parked   time.Time `json:"parked"`            // zero: not in the years 1 to 9999
	Reason   Reason    `json:"reason"`            // why it was parked
	Detail   string    `json:"detail,omitempty"`  // at most MaxDetail bytes
}

// A ParkedFilter selects the rows that Parked returns. The zero ParkedFilter selects all.
type ParkedFilter struct {
	Queue  string // empty: all queues
	Reason Reason // empty: all reasons
	After  int64  // only rows with a higher Seq, for the next page
	Limit  int    // zero and negative: DefaultListLimit; at most MaxListLimit
}

// Parked returns parked rows, ordered by Seq.
func (t *Table) Parked(ctx context.Context, f ParkedFilter) ([]ParkedRow, error) {
	if f.Limit <= 0 {
		f.Limit = DefaultListLimit
	}
	rows, err := t.db.QueryContext(ctx, t.sql.parked, f.Queue, string(f.Reason), f.After, min(f.Limit, MaxListLimit))
	if err != nil {
		return nil, fmt.Errorf("outbox: parked rows: %w", err)
	}
	defer rows.Close()
	var all []ParkedRow
	for rows.Next() {
		var r ParkedRow
		var enqueued, parked sql.NullTime
		if err := rows.Scan(&r.Seq, &r.Queue, &r.ID, &r.Version, &r.Size, &r.Owner, &enqueued, &parked, &r.Reason, &r.Detail); err != nil {
			return nil, fmt.Errorf("outbox: parked rows: %w", err)
		}
		r.Enqueued, r.Parked = enqueued.Time, parked.Time
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("outbox: parked rows: %w", err)
	}
	return all, nil
}

// Input returns the encoded input of a parked row, or ErrNotFound.
func (t *Table) Input(ctx context.Context, seq int64) ([]byte, error) {
	var data []byte
	err := t.db.QueryRowContext(ctx, t.sql.input, seq).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("outbox: input: %w", err)
	}
	return data, nil
}

// Retry moves parked rows back, with their IDs, so that a Relay tries them again, and
// wakes the relays. It returns how many there were. A row that was parked as doubtful
// is submitted even if its job could have run: first make sure that it did not.
func (t *Table) Retry(ctx context.Context, seqs ...int64) (int, error) {
	var n, notified int
	if err := t.db.QueryRowContext(ctx, t.sql.retry, array(seqs)).Scan(&n, &notified); err != nil {
		return 0, fmt.Errorf("outbox: retry: %w", err)
	}
	return n, nil
}

// Delete deletes parked rows. It returns how many there were.
func (t *Table) Delete(ctx context.Context, seqs ...int64) (int, error) {
	res, err := t.db.ExecContext(ctx, t.sql.drop, array(seqs))
	if err != nil {
		return 0, fmt.Errorf("outbox: delete: %w", err)
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// A QueueBacklog counts the rows of a queue.
type QueueBacklog struct {
	Queue string `json:"queue"` // name of the queue
	// Rows counts the rows that are waiting or being submitted, up to MaxCounted.
	Rows int `json:"rows"`
	// Oldest is the age of the row with the lowest number, which is the oldest but for
	// the order of commits; 0 without rows.
	Oldest time.Duration `json:"oldest_ns"`
	// Parked counts the parked rows, up to MaxCounted for all queues together.
	Parked int `json:"parked"`
}

// Backlog returns the queues that have rows. Its cost grows with the number of queues,
// and of rows up to MaxCounted, so it can be called every few seconds.
func (t *Table) Backlog(ctx context.Context) ([]QueueBacklog, error) {
	var all []QueueBacklog
	at := map[string]int{}
	err := t.each(ctx, func(rows *sql.Rows) error {
		var b QueueBacklog
		var age sql.NullInt64 // null: the rows were deleted during the query
		if err := rows.Scan(&b.Queue, &b.Rows, &age); err != nil {
			return err
		}
		b.Oldest = max(0, microseconds(age.Int64))
		at[b.Queue] = len(all)
		all = append(all, b)
		return nil
	}, t.sql.backlog, MaxCounted)
	if err == nil {
		err = t.each(ctx, func(rows *sql.Rows) error {
			var queue string
			var n int
			if err := rows.Scan(&queue, &n); err != nil {
				return err
			}
			if _, ok := at[queue]; !ok {
				at[queue] = len(all)
				all = append(all, QueueBacklog{Queue: queue})
			}
			all[at[queue]].Parked = n
			return nil
		}, t.sql.parkedCounts, MaxCounted)
	}
	if err != nil {
		return nil, fmt.Errorf("outbox: backlog: %w", err)
	}
	return all, nil
}

// Restored prepares the table after the database was restored to an earlier point,
// before a Relay runs: it marks all rows as if they had been tried when they were
// enqueued. A row of that time may have become a job before the restore. If the queue
// still knows that job, the row is deleted; if it could have forgotten it, the row is
// parked as doubtful. It is required only if the point is further back than the shortest
// time that the queues remember their jobs (jobs.Queue.Remembers). It returns the number
// of rows that it marked.
func (t *Table) Restored(ctx context.Context) (int, error) {
	res, err := t.db.ExecContext(ctx, t.sql.restored)
	if err != nil {
		return 0, fmt.Errorf("outbox: restored: %w", err)
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// each calls f for each row of a query.
func (t *Table) each(ctx context.Context, f func(*sql.Rows) error, query string, args ...any) error {
	rows, err := t.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// array returns an array as PostgreSQL reads it from text, because drivers differ in
// how they pass slices.
func array(seqs []int64) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, n := range seqs {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(n, 10))
	}
	b.WriteByte('}')
	return b.String()
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
