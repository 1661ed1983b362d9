package weirredis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/weir-go/weir/fleet"
)

// maxExact is the largest number up to which a script represents all integers
// exactly.
const maxExact = 1 << 53

// errAnswer is the error of a response that no script returns.
var errAnswer = errors.New("a response that no script returns")

// names are the names of the engine's keys for one Key.
type names struct{ state, entry, push string }

func (e *engine) names(k fleet.Key) names {
	tag := keyTag(k)
	return names{state: e.o.Prefix + ":s:" + tag, entry: e.o.Prefix + ":e:" + tag, push: e.o.Prefix + ":p:" + tag + ":"}
}

func (e *engine) script(ctx context.Context, op string, s *script, keys []string, args ...string) (rueidis.RedisMessage, error) {
	return e.do(ctx, op, func(c rueidis.Client) rueidis.RedisResult { return s.run(ctx, c, keys, args) })
}

// Ping sends a PING. In a Cluster one responding node is enough.
func (e *engine) Ping(ctx context.Context) error {
	_, err := e.do(ctx, "ping", func(c rueidis.Client) (r rueidis.RedisResult) {
		for _, node := range c.Nodes() { // in any order
			if r = node.Do(context.Background(), node.B().Ping().Build()); r.Error() == nil {
				break
			}
		}
		return r
	})
	return err
}

// Acquire is of fleet.Tier.
func (e *engine) Acquire(ctx context.Context, k fleet.Key, a fleet.Ask) (fleet.Answer, error) {
	if err := errors.Join(checkKey(k), checkLease(a.Lease)); err != nil {
		return fleet.Answer{}, err
	}
	n := e.names(k)
	m, err := e.script(ctx, "acquire", acquireScript, []string{n.state, n.entry},
		decimal(min(a.NewerThan, maxExact)), decimal(min(a.Joined, maxExact)), micros(a.Lease), flag(a.Cooled), flag(a.Push))
	if err != nil {
		return fleet.Answer{}, err
	}
	ans, err := readAnswer(m)
	if err != nil {
		return fleet.Answer{}, &fleet.UnavailableError{Op: "acquire", Err: err}
	}
	return ans, nil
}

// readAnswer reads the response of acquire.lua.
func readAnswer(m rueidis.RedisMessage) (a fleet.Answer, err error) {
	v, err := m.ToArray()
	if err != nil || len(v) != 9 {
		return a, errAnswer
	}
	grant, err := v[0].AsInt64()
	if err != nil || grant < int64(fleet.GrantFresh) || grant > int64(fleet.GrantCooling) {
		return a, errAnswer
	}
	r := reader{v: v}
	a.Grant, a.Fence, a.Remaining = fleet.Grant(grant), r.number(1), r.duration(2)
	if r.text(3) != "" {
		a.Entry = &fleet.Entry{Data: []byte(r.text(5)), Fence: r.number(3), Fresh: r.duration(4)}
	}
	a.Now = r.number(8)
	if a.Grant == fleet.GrantCooling {
		a.Failure = fleet.Failure{Kind: strings.Clone(r.text(6)), Text: strings.Clone(r.text(7))}
	}
	return a, r.err
}

// A reader reads the parts of a script's response, all of which are strings.
type reader struct {
	v   []rueidis.RedisMessage
	err error // the first
}

func (r *reader) text(i int) string {
	s, err := r.v[i].ToString()
	r.fail(err)
	return s
}

func (r *reader) number(i int) uint64 {
	n, err := strconv.ParseUint(r.text(i), 10, 64)
	r.fail(err)
	return n
}

func (r *reader) duration(i int) time.Duration {
	n, err := strconv.ParseInt(r.text(i), 10, 64)
	r.fail(err)
	const most = math.MaxInt64 / int64(time.Microsecond)
	return time.Duration(min(max(n, -most), most)) * time.Microsecond
}

func (r *reader) fail(err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%w: %w", errAnswer, err)
	}
}

// Extend is of fleet.Tier.
func (e *engine) Extend(ctx context.Context, k fleet.Key, fence uint64, d time.Duration) (bool, error) {
	if err := errors.Join(checkKey(k), checkLease(d)); err != nil {
		return false, err
	}
	n := e.names(k)
	return yes(e.script(ctx, "extend", extendScript, []string{n.state, n.entry}, decimal(fence), micros(d)))
}

// Settle is of fleet.Tier.
func (e *engine) Settle(ctx context.Context, k fleet.Key, fence uint64, o fleet.Outcome) (bool, error) {
	if err := checkKey(k); err != nil {
		return false, err
	}
	n := e.names(k)
	args := []string{decimal(fence), n.push}
	if o.Entry != nil {
		args = append(append(args, "entry"), entryArgs(o.Entry)...)
		args = append(args, decimal(o.Entry.Until))
		return yes(e.script(ctx, "settle", settleScript, []string{n.state, n.entry}, args...))
	}
	came := "nothing"
	if o.Cool > 0 {
		came = "failure"
	}
	args = append(args, came, flag(o.Remove), cut(o.Failure.Kind, maxFailureKind), cut(o.Failure.Text, fleet.MaxFailureText),
		micros(o.Cool), micros(o.MaxCool))
	return yes(e.script(ctx, "settle", settleScript, []string{n.state, n.entry}, args...))
}

const maxFailureKind = 64 // bytes, see fleet.Failure

func cut(s string, n int) string { return s[:min(len(s), n)] }

func entryArgs(e *fleet.Entry) []string {
	keep := e.Keep / time.Millisecond
	if e.Keep > 0 && keep == 0 {
		keep = 1
	}
	return []string{string(e.Data), micros(e.Fresh), decimal(int64(keep)), flag(e.Push && keep > 0)}
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// Write is of fleet.Tier.
func (e *engine) Write(ctx context.Context, k fleet.Key, w fleet.Write) (uint64, error) {
	if err := checkKey(k); err != nil {
		return 0, err
	}
	n := e.names(k)
	args := []string{n.push}
	switch {
	case w.Entry != nil:
		args = append(append(args, "entry"), entryArgs(w.Entry)...)
	case w.Expire:
		args = append(args, "expire")
	default:
		args = append(args, "remove")
	}
	return number("write")(e.script(ctx, "write", writeScript, []string{n.state, n.entry}, args...))
}

func (e *engine) notes(namespace string) string { return e.o.Prefix + ":t:" + namespaceTag(namespace) }

// Tags is of fleet.Tier. It is a plain read.
func (e *engine) Tags(ctx context.Context, namespace string, tags []string) (fleet.TagState, error) {
	if err := errors.Join(checkNamespace(namespace), checkTags(tags)); err != nil {
		return fleet.TagState{}, err
	}
	fields := make([]string, 1, 1+2*len(tags))
	fields[0] = "n"
	for _, kind := range []string{pushTagged, pushExpired} {
		for _, tag := range tags {
			fields = append(fields, kind+tag)
		}
	}
	m, err := e.do(ctx, "tags", func(c rueidis.Client) rueidis.RedisResult {
		return c.Do(context.Background(), c.B().Hmget().Key(e.notes(namespace)).Field(fields...).Build())
	})
	if err != nil {
		return fleet.TagState{}, err
	}
	v, err := m.ToArray()
	if err != nil || len(v) != len(fields) {
		return fleet.TagState{}, &fleet.UnavailableError{Op: "tags", Err: errAnswer}
	}
	var last uint64
	each := make([]uint64, 2*len(tags))
	for i := range v {
		if v[i].IsNil() {
			continue
		}
		note, err := v[i].ToString()
		seq, _, _ := strings.Cut(note, " ") // its expiry time follows
		n, errNumber := strconv.ParseUint(seq, 10, 64)
		if err != nil || errNumber != nil {
			return fleet.TagState{}, &fleet.UnavailableError{Op: "tags", Err: errAnswer}
		}
		if i == 0 {
			last = n
		} else {
			each[i-1] = n
		}
	}
	return fleet.TagState{Last: last, Each: each[:len(tags):len(tags)], Expired: each[len(tags):]}, nil
}

// InvalidateTags is of fleet.Tier.
func (e *engine) InvalidateTags(ctx context.Context, namespace string, tags []string, keep time.Duration) (uint64, error) {
	return e.note(ctx, "invalidate tags", pushTagged, namespace, tags, keep)
}

// ExpireTags is of fleet.Tier.
func (e *engine) ExpireTags(ctx context.Context, namespace string, tags []string, keep time.Duration) (uint64, error) {
	return e.note(ctx, "expire tags", pushExpired, namespace, tags, keep)
}

func (e *engine) note(ctx context.Context, op, kind, namespace string, tags []string, keep time.Duration) (uint64, error) {
	if err := errors.Join(checkNamespace(namespace), checkTags(tags)); err != nil {
		return 0, err
	}
	place := namespaceTag(namespace)
	args := []string{e.o.Prefix + ":p:" + place + ":", micros(keep), kind}
	for _, tag := range tags {
		args = append(args, tag, string(appendEscaped(nil, tag, inName)))
	}
	return number(op)(e.script(ctx, op, invalidateScript, []string{e.notes(namespace)}, args...))
}

// Take is of fleet.Meter.
func (e *engine) Take(ctx context.Context, k fleet.Key, r fleet.Rate, n int) (fleet.Taken, error) {
	if err := errors.Join(checkKey(k), checkTake(r, n)); err != nil {
		return fleet.Taken{}, err
	}
	m, err := e.script(ctx, "take", takeScript, []string{e.o.Prefix + ":m:" + keyTag(k)},
		decimal(r.Permits), decimal(int64(r.Per)), decimal(r.Burst), decimal(n))
	if err != nil {
		return fleet.Taken{}, err
	}
	v, err := m.AsIntSlice()
	if err != nil || len(v) != 3 || v[0] < 0 || v[0] > int64(n) {
		return fleet.Taken{}, &fleet.UnavailableError{Op: "take", Err: errAnswer}
	}
	const most = math.MaxInt64 / int64(time.Microsecond)
	return fleet.Taken{Permits: int(v[0]), RetryAfter: time.Duration(min(v[1], most)) * time.Microsecond, Replaced: e.replaced(k, float64(v[2]))}, nil
}

// micros returns d in microseconds, rounded up, so that a fraction does not become 0.
func micros(d time.Duration) string {
	n := d / time.Microsecond
	if d%time.Microsecond > 0 {
		n++
	}
	return decimal(int64(n))
}

func yes(m rueidis.RedisMessage, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := m.AsInt64()
	return n == 1, err
}

// number reads a script's response that is a number.
func number(op string) func(rueidis.RedisMessage, error) (uint64, error) {
	return func(m rueidis.RedisMessage, err error) (uint64, error) {
		if err != nil {
			return 0, err
		}
		s, err := m.ToString()
		if err != nil {
			return 0, &fleet.UnavailableError{Op: op, Err: errAnswer}
		}
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return 0, &fleet.UnavailableError{Op: op, Err: errAnswer}
		}
		return n, nil
	}
}
