package inserts_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-go/weir/batch"
	"github.com/weir-go/weir/lab/inserts"
	"github.com/weir-go/weir/limit"
)

// Every fault is found, and distinguished from the others.
func TestLedgerFindsFaults(t *testing.T) {
	tab := newTable(t)
	tab.exec(`ALTER TABLE orders DROP CONSTRAINT orders_pkey`) // otherwise no order could be there twice
	insert := func(o inserts.Order) {
		tab.exec(`INSERT INTO orders (id, customer, cents, note) VALUES ($1, $2, $3, $4)`, o.ID, o.Customer, o.Cents, o.Note)
	}
	order := inserts.NewOrder(1)
	other := order
	other.Note = "another note"
	tests := []struct {
		name   string
		rows   []inserts.Order
		number int64
		told   inserts.Outcome
		want   inserts.Verdict
	}{
		{"stored", []inserts.Order{order}, 1, inserts.Stored, inserts.Verdict{Stored: 1}},
		{"stored, number not told", []inserts.Order{order}, 0, inserts.Stored, inserts.Verdict{Stored: 1}},
		{"absent", nil, 0, inserts.Absent, inserts.Verdict{Absent: 1}},
		{"unknown, there", []inserts.Order{order}, 0, inserts.Unknown, inserts.Verdict{Unknown: 1, UnknownStored: 1}},
		{"unknown, not there", nil, 0, inserts.Unknown, inserts.Verdict{Unknown: 1}},
		{"lost", nil, 1, inserts.Stored, inserts.Verdict{Stored: 1, Lost: 1}},
		{"doubled", []inserts.Order{order, order}, 1, inserts.Stored, inserts.Verdict{Stored: 1, Doubled: 1}},
		{"refused and there", []inserts.Order{order}, 0, inserts.Absent, inserts.Verdict{Absent: 1, Unasked: 1}},
		{"never sent", []inserts.Order{order, inserts.NewOrder(2)}, 1, inserts.Stored, inserts.Verdict{Stored: 1, Unasked: 1}},
		{"another content", []inserts.Order{other}, 1, inserts.Stored, inserts.Verdict{Stored: 1, Wrong: 1}},
		{"another number", []inserts.Order{order}, 7, inserts.Stored, inserts.Verdict{Stored: 1, Wrong: 1}},
	}
	for _, tt := range tests {
		tab.exec(`TRUNCATE orders RESTART IDENTITY`)
		for _, o := range tt.rows {
			insert(o)
		}
		ledger := inserts.NewLedger(2)
		ledger.Tell(1, order.ID, tt.number, tt.told)
		got, err := ledger.Compare(t.Context(), tab.admin)
		if got != tt.want || err != nil {
			t.Errorf("%s: Compare = %+v, %v; want %+v", tt.name, got, err, tt.want)
		}
		faults := got.Lost + got.Doubled + got.Unasked + got.Wrong
		if (got.Err() != nil) != (faults > 0) {
			t.Errorf("%s: Err() = %v with %d faults", tt.name, got.Err(), faults)
		}
	}
}

func TestOutcomeOf(t *testing.T) {
	gone, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the caller went away")
	cancel(cause)
	constraint := &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "23514"}
	tests := []struct {
		err    error
		want   inserts.Outcome
		badRow bool
	}{
		{nil, inserts.Stored, false},
		{constraint, inserts.Absent, true},
		{fmt.Errorf("insert: %w", constraint), inserts.Absent, true},
		{&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "22003"}, inserts.Absent, true},
		{&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "57014"}, inserts.Absent, false},
		{&pgconn.PgError{SeverityUnlocalized: "FATAL", Code: "57P01"}, inserts.Unknown, false},
		{errors.New("connection reset"), inserts.Unknown, false},
		{context.DeadlineExceeded, inserts.Unknown, false},
		{cause, inserts.Absent, false},
		{&batch.UnknownError{Cause: cause}, inserts.Unknown, false},
		{&batch.TimeoutError{}, inserts.Unknown, false},
		{batch.ErrClosed, inserts.Absent, false},
		{&batch.UnknownError{Cause: batch.ErrClosed}, inserts.Unknown, false},
		{&limit.Error{Reason: limit.QueueFull}, inserts.Absent, false},
	}
	for _, tt := range tests {
		if got := inserts.OutcomeOf(gone, tt.err); got != tt.want {
			t.Errorf("OutcomeOf(%v) = %v; want %v", tt.err, got, tt.want)
		}
		if got := inserts.BadRow(tt.err); got != tt.badRow {
			t.Errorf("BadRow(%v) = %t; want %t", tt.err, got, tt.badRow)
		}
	}
}
