package weirredis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/weir-go/weir/fleet"
)

var (
	_ fleet.Ledger = (*engine)(nil)
	_ fleet.Ledger = (*Tier)(nil)
)

// Spend is of fleet.Ledger.
func (e *engine) Spend(ctx context.Context, k fleet.Key, r fleet.Rate, n int) (fleet.Spent, error) {
	if err := errors.Join(checkKey(k), checkTake(r, n)); err != nil {
		return fleet.Spent{}, err
	}
	m, err := e.script(ctx, "spend", spendScript, []string{e.bucket(k)},
		decimal(r.Permits), decimal(int64(r.Per)), decimal(r.Burst), decimal(n))
	if err != nil {
		return fleet.Spent{}, err
	}
	v := numbersOf(m)
	if len(v) < 4 {
		return fleet.Spent{}, &fleet.UnavailableError{Op: "spend", Err: errAnswer}
	}
	s := fleet.Spent{Left: v[2], Replaced: e.replaced(k, v[3])}
	switch {
	case len(v) == 4 && v[0] == 0:
		const most = math.MaxInt64 / int64(time.Microsecond)
		s.RetryAfter = time.Duration(max(1, min(v[1], float64(most)))) * time.Microsecond
	case len(v) == 10 && v[0] == 1:
		s.OK = true
		s.Mark = fleet.Mark{Epoch: uint64(v[4]), Seq: uint64(v[5]), Ahead: v[6], Leaked: v[7], Returns: uint64(v[8]), Returned: v[9]}
	default:
		return fleet.Spent{}, &fleet.UnavailableError{Op: "spend", Err: errAnswer}
	}
	return s, nil
}

// Correct is of fleet.Ledger.
func (e *engine) Correct(ctx context.Context, k fleet.Key, r fleet.Rate, debt int, c fleet.Correction) (fleet.Corrected, error) {
	if err := errors.Join(checkKey(k), checkTake(r, 1)); err != nil {
		return fleet.Corrected{}, err
	}
	if c.Units < 0 || c.Cost < 0 {
		return fleet.Corrected{}, fmt.Errorf("weirredis: a correction from %d to %d units; at least 0", c.Units, c.Cost)
	}
	m, err := e.script(ctx, "correct", correctScript, []string{e.bucket(k), e.o.Prefix + ":r:" + keyTag(k)},
		decimal(r.Permits), decimal(int64(r.Per)), decimal(r.Burst), decimal(max(0, debt)), decimal(c.Units), decimal(c.Cost),
		decimal(c.Mark.Epoch), decimal(c.Mark.Seq), exact(c.Mark.Ahead), exact(c.Mark.Leaked), decimal(c.Mark.Returns), exact(c.Mark.Returned), decimal(c.Remember()))
	if err != nil {
		return fleet.Corrected{}, err
	}
	v := numbersOf(m)
	if len(v) != 4 || v[0] < 0 || v[1] < 0 || v[0] > float64(c.Units) || v[1] > float64(c.Cost) {
		return fleet.Corrected{}, &fleet.UnavailableError{Op: "correct", Err: errAnswer}
	}
	return fleet.Corrected{Returned: int(v[0]), Owed: int(v[1]), Left: v[2], Replaced: e.replaced(k, v[3])}, nil
}

// replaced reports whether a script has replaced foreign contents under a key of k.
func (e *engine) replaced(k fleet.Key, flag float64) bool {
	if flag == 0 {
		return false
	}
	if e.o.Replaced != nil {
		e.o.Replaced(k)
	}
	return true
}

// bucket returns the name of the bucket of units of k.
func (e *engine) bucket(k fleet.Key) string { return e.o.Prefix + ":b:" + keyTag(k) }

func exact(v float64) string { return strconv.FormatFloat(v, 'g', 17, 64) }

// numbersOf returns the numbers in a list of texts, nil if one of them is no finite
// number.
func numbersOf(m rueidis.RedisMessage) []float64 {
	texts, err := m.AsStrSlice()
	if err != nil {
		return nil
	}
	all := make([]float64, len(texts))
	for i, text := range texts {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		all[i] = v
	}
	return all
}
