package fleetlab

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
)

// A Member is a Guard in a fleet, with its own tier and connections.
type Member struct {
	Guard *weir.Guard[string, Answer]

	leave func() error // closes the tier; nil if there is none
}

// Join returns a Member that loads with load. It does not need o's Name and Source.
func Join(o InstanceOptions, load func(ctx context.Context, key string) (Answer, error)) (*Member, error) {
	m := new(Member)
	options := o.options()
	if len(o.Engine.Addrs) > 0 {
		tier, leave, err := o.Engine.open()
		if err != nil {
			return nil, err
		}
		m.leave = leave
		options.Fleet = weir.Fleet{Config: fleet.Config{Tier: tier, Namespace: o.Engine.Namespace, Lease: o.Lease, MemoryCap: o.MemoryCap, PushValues: o.Pushes}}
	}
	var err error
	m.Guard, err = weir.New(load, options)
	if err != nil && m.leave != nil {
		err = errors.Join(err, m.leave())
	}
	return m, err
}

// closeTime is how long a Member waits for its loads to end.
const closeTime = 2 * time.Second

// Close closes the Member.
func (m *Member) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	err := m.Guard.Close(ctx)
	if m.leave != nil {
		err = errors.Join(err, m.leave())
	}
	return err
}
