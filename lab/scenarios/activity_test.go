package scenarios

import (
	"context"
	"errors"
	"testing"
)

// rowsOf is a store that contains these rows.
type rowsOf struct {
	activityStore
	rows []activity
	err  error
}

func (s rowsOf) each(_ context.Context, found func(activity)) error {
	for _, a := range s.rows {
		found(a)
	}
	return s.err
}

func TestActivityLedger(t *testing.T) {
	first, second, failed, stranger := activityOf(archivedID(1)), activityOf(archivedID(2)), activityOf(archivedID(3)), activityOf(newActivityID())
	altered := second
	altered.Document = first.Document
	for _, tt := range []struct {
		name string
		rows []activity
		want activityCount
	}{
		{"all there", []activity{first, second}, activityCount{Stored: 2}},
		{"a failed one there too", []activity{first, second, failed}, activityCount{Stored: 3}},
		{"one lost", []activity{first}, activityCount{Stored: 1, Lost: 1}},
		{"one doubled", []activity{first, second, first}, activityCount{Stored: 3, Doubled: 1}},
		{"one altered", []activity{first, altered}, activityCount{Stored: 2, Wrong: 1}},
		{"one that nobody sent", []activity{first, second, stranger}, activityCount{Stored: 3, Unasked: 1}},
		{"one lost, one that nobody sent", []activity{first, stranger}, activityCount{Stored: 2, Lost: 1, Unasked: 1}},
	} {
		var l activityLedger
		l.tell(first.ID, nil)
		l.tell(second.ID, nil)
		l.tell(failed.ID, errors.New("no"))
		tt.want.Acknowledged, tt.want.Failed = 2, 1
		if got, err := l.compare(t.Context(), rowsOf{rows: tt.rows}); got != tt.want || err != nil {
			t.Errorf("%s: compare = %+v, %v; want %+v", tt.name, got, err, tt.want)
		}
		l.clear()
		if got, _ := l.compare(t.Context(), rowsOf{}); got != (activityCount{}) {
			t.Errorf("%s: compare after clear = %+v; want nothing", tt.name, got)
		}
	}
}

func TestActivityLedgerWithoutADatabase(t *testing.T) {
	gone := errors.New("gone")
	if _, err := new(activityLedger).compare(t.Context(), rowsOf{err: gone}); !errors.Is(err, gone) {
		t.Errorf("compare = %v; want %v", err, gone)
	}
}
