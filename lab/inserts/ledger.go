package inserts

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A Ledger records the results that callers got for their orders, for a comparison
// with the table. Each caller writes its own part, without a lock.
type Ledger struct {
	callers [][]told
}

// told is the result that a caller got for one order.
type told struct {
	id, number int64 // number 0: the caller got none
	outcome    Outcome
}

// NewLedger returns a Ledger for callers 0 to callers-1.
func NewLedger(callers int) *Ledger {
	return &Ledger{callers: make([][]told, callers)}
}

// Tell records what the caller knows about the order with that id. Call it once for
// each id. number is the one that the table gave the order, 0 if the caller did not
// receive it.
func (l *Ledger) Tell(caller int, id, number int64, o Outcome) {
	l.callers[caller] = append(l.callers[caller], told{id, number, o})
}

// A Verdict is the result of a comparison.
type Verdict struct {
	Stored  int64 `json:"stored"`  // orders that were acknowledged
	Absent  int64 `json:"absent"`  // orders that were refused
	Unknown int64 `json:"unknown"` // orders whose outcome the caller does not know

	UnknownStored int64 `json:"unknown_stored"` // of Unknown, those in the table

	// The faults: each must be zero.
	Lost    int64 `json:"lost"`    // acknowledged, but not in the table
	Doubled int64 `json:"doubled"` // in the table more than once
	Unasked int64 `json:"unasked"` // in the table, though refused or never sent
	Wrong   int64 `json:"wrong"`   // in the table with different content or another number
}

// Add adds the result of another comparison.
func (v *Verdict) Add(o Verdict) {
	v.Stored += o.Stored
	v.Absent += o.Absent
	v.Unknown += o.Unknown
	v.UnknownStored += o.UnknownStored
	v.Lost += o.Lost
	v.Doubled += o.Doubled
	v.Unasked += o.Unasked
	v.Wrong += o.Wrong
}

// Err returns an error that describes the faults, or nil.
func (v Verdict) Err() error {
	if v.Lost == 0 && v.Doubled == 0 && v.Unasked == 0 && v.Wrong == 0 {
		return nil
	}
	return fmt.Errorf("inserts: the table differs from its callers' results: of %d acknowledged orders %d lost, %d duplicated, %d wrong; %d that should not be there",
		v.Stored, v.Lost, v.Doubled, v.Wrong, v.Unasked)
}

// Compare compares the table with the ledger. No caller may be running, nor any of
// their statements on the server.
func (l *Ledger) Compare(ctx context.Context, db DB) (Verdict, error) {
	var v Verdict
	byID := make(map[int64]told)
	for _, c := range l.callers {
		for _, t := range c {
			if _, twice := byID[t.id]; twice {
				return v, fmt.Errorf("inserts: order %d is in the ledger twice", t.id)
			}
			byID[t.id] = t
			switch t.outcome {
			case Stored:
				v.Stored++
			case Absent:
				v.Absent++
			default:
				v.Unknown++
			}
		}
	}
	seen := make(map[int64]bool, len(byID))
	rows, err := db.Query(ctx, `SELECT id, number, customer, cents, note FROM orders`)
	if err != nil {
		return v, err
	}
	var o Order
	var number int64
	_, err = pgx.ForEachRow(rows, []any{&o.ID, &number, &o.Customer, &o.Cents, &o.Note}, func() error {
		v.row(byID, seen, o, number)
		return nil
	})
	for id, t := range byID {
		if t.outcome == Stored && !seen[id] {
			v.Lost++
		}
	}
	if err != nil {
		return v, errors.Join(errors.New("inserts: read the table"), err)
	}
	return v, nil
}

// row compares a row of the table.
func (v *Verdict) row(byID map[int64]told, seen map[int64]bool, o Order, number int64) {
	t, asked := byID[o.ID]
	switch {
	case seen[o.ID]:
		v.Doubled++
	case !asked || t.outcome == Absent:
		v.Unasked++
	case o != NewOrder(o.ID) || t.number != 0 && t.number != number:
		v.Wrong++
	case t.outcome == Unknown:
		v.UnknownStored++
	}
	seen[o.ID] = true
}
