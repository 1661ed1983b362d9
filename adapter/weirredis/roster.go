package weirredis

import (
	"context"
	"encoding/json"
	"time"

	"github.com/redis/rueidis"
	"github.com/weir-go/weir/fleet"
)

// maxInstances bounds how many instances Instances returns.
const maxInstances = 10_000

// roster returns the engine's key for the instances. There is one per Prefix.
func (e *engine) roster() string { return e.o.Prefix + ":i:" + namespaceTag("") }

// Announce is of fleet.Roster.
func (e *engine) Announce(ctx context.Context, i fleet.Instance, ttl time.Duration) error {
	said, err := fleet.CheckAnnouncement(i, ttl)
	if err != nil {
		return err
	}
	_, err = e.script(ctx, "announce", announceScript, []string{e.roster()}, i.ID, micros(ttl), string(said))
	return err
}

// Withdraw is of fleet.Roster.
func (e *engine) Withdraw(ctx context.Context, id string) error {
	_, err := e.do(ctx, "withdraw", func(c rueidis.Client) rueidis.RedisResult {
		return c.Do(context.Background(), c.B().Hdel().Key(e.roster()).Field(id).Build())
	})
	return err
}

// Instances implements fleet.Roster. It leaves out instances of other versions of
// weir that this version cannot read.
func (e *engine) Instances(ctx context.Context) ([]fleet.Instance, error) {
	m, err := e.script(ctx, "instances", instancesScript, []string{e.roster()}, decimal(maxInstances))
	if err != nil {
		return nil, err
	}
	v, err := m.ToArray()
	if err != nil || len(v)%2 != 0 {
		return nil, &fleet.UnavailableError{Op: "instances", Err: errAnswer}
	}
	var all []fleet.Instance
	r := reader{v: v}
	for n := 0; n < len(v); n += 2 {
		var i fleet.Instance
		seen := r.number(n)
		if json.Unmarshal([]byte(r.text(n+1)), &i) == nil {
			i.Seen = time.UnixMicro(int64(seen)).UTC()
			all = append(all, i)
		}
	}
	if r.err != nil {
		return nil, &fleet.UnavailableError{Op: "instances", Err: r.err}
	}
	fleet.SortInstances(all)
	return all, nil
}
