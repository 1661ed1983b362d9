package jobs

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// J29: a record that is too long loses lines of its log before failed attempts.
func TestJ29_ALogGivesWayToFailedAttempts(t *testing.T) {
	r := goldenRecord
	r.Log, r.History = nil, nil
	for range MaxLogLines {
		r.Log = append(r.Log, LogLine{At: goldenTime, Attempt: 1, Text: strings.Repeat(`"`, MaxLogBytes/MaxLogLines)})
	}
	for n := range MaxHistory {
		r.History = append(r.History, FailedAttempt{Attempt: n, Ended: goldenTime, Error: strings.Repeat(`"`, MaxNote)})
	}
	fits := func(want record) (got record) {
		t.Helper()
		data := meta(want)
		if len(data) > maxMeta {
			t.Errorf("the record has %d bytes; want at most %d", len(data), maxMeta)
		}
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := fits(r); len(got.History) != MaxHistory || len(got.Log) != MaxLogLines {
		t.Errorf("%d failed attempts and %d lines; want all, %d and %d: they fit", len(got.History), len(got.Log), MaxHistory, MaxLogLines)
	}
	for n := range r.History {
		r.History[n].Error = strings.Repeat("\x01", MaxNote*9/20) // six bytes each
	}
	r.Error = strings.Repeat("\x01", MaxNote)
	got := fits(r)
	if len(got.Log) == MaxLogLines || len(got.Log) == 0 || len(got.History) != MaxHistory {
		t.Errorf("%d failed attempts and %d lines; want %d and the last lines", len(got.History), len(got.Log), MaxHistory)
	}
}

// J29: a line is never from before its attempt, although the known clock of the server is
// behind.
func TestJ29_ALineIsNotFromBeforeItsAttempt(t *testing.T) {
	behind := &queue{store: &Store{journal: new(journal.Journal)}} // its clock was never set
	a := &attempt{record: record{Started: goldenTime}, w: &Worker{queue: behind}}
	if at := a.now(); at.Before(goldenTime) {
		t.Errorf("a line is from %v; its attempt began at %v", at, goldenTime)
	}
}
