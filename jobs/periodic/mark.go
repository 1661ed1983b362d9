package periodic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/jobs/internal/ledger"
)

// markVersion is the version of a mark's format. A program refuses any other.
const markVersion = 1

// A mark is what the fleet knows of a schedule. It is replaced by compare-and-swap, and
// its last tick only grows. It has no expiry.
type mark struct {
	Version int    `json:"v"`
	Name    string `json:"name"`

	// Last is the last tick that was decided: each tick up to it has a job, or was
	// skipped, or is claimed by Claim.
	Last time.Time `json:"last"`

	// Claim is the job of Last; nil: Last was skipped. The next tick replaces it after
	// its commit.
	Claim *ledger.Claim `json:"claim,omitempty"`

	// Definitions are the definitions of the schedule that instances have, the latest
	// last. A definition has no ticks from before it was known.
	Definitions []definition `json:"definitions"`
}

type definition struct {
	Print string    `json:"print"`
	Since time.Time `json:"since"`
}

// maxDefinitions bounds the definitions that a mark remembers. The oldest is forgotten
// first.
const maxDefinitions = 8

// since returns since when a definition has been known.
func (m *mark) since(print string) (time.Time, bool) {
	for _, d := range m.Definitions {
		if d.Print == print {
			return d.Since, true
		}
	}
	return time.Time{}, false
}

// with returns m with one more definition.
func (m mark) with(print string, since time.Time) mark {
	all := append(m.Definitions[:len(m.Definitions):len(m.Definitions)], definition{print, since})
	m.Definitions = all[max(0, len(all)-maxDefinitions):]
	return m
}

// read returns the mark of the schedule and its revision. It returns false if there is
// none.
func (r *runner) read(ctx context.Context) (mark, uint64, bool, error) {
	stored, err := r.ledger.ReadMark(ctx, r.schedule.Name)
	if err != nil || stored.Revision == 0 {
		return mark{}, 0, false, err
	}
	var m mark
	if err := json.Unmarshal(stored.Data, &m); err != nil {
		return mark{}, 0, false, fmt.Errorf("periodic: mark of schedule %q: %w", r.schedule.Name, err)
	}
	if m.Version != markVersion {
		return mark{}, 0, false, fmt.Errorf("periodic: mark of schedule %q has format %d; this program reads %d", r.schedule.Name, m.Version, markVersion)
	}
	return m, stored.Revision, true, nil
}

// write replaces the mark of a revision. It returns false if it was changed before.
func (r *runner) write(ctx context.Context, m mark, after uint64) (bool, error) {
	m.Version, m.Name = markVersion, r.schedule.Name
	data, err := json.Marshal(m)
	if err != nil {
		return false, err
	}
	_, err = r.ledger.WriteMark(ctx, r.schedule.Name, data, after)
	if errors.Is(err, ledger.ErrStale) {
		return false, nil
	}
	return err == nil, err
}
