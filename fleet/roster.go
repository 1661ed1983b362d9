package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// An Instance is one process of a fleet, as it has announced itself.
type Instance struct {
	ID      string    `json:"id"`                // of the process; a new one after a restart
	Name    string    `json:"name"`              // a name that people read: host and process
	Address string    `json:"address,omitempty"` // where operators reach it, if anywhere
	Version string    `json:"version,omitempty"` // version of its program
	Started time.Time `json:"started"`           // time at which the process started
	Seen    time.Time `json:"seen"`              // when it last announced itself, by the engine's clock

	// Counts are a few of its numbers, since its start, by name.
	Counts map[string]uint64 `json:"counts,omitempty"`
}

// A Roster knows the instances of a fleet, of all namespaces together: see
// [Abilities].
type Roster interface {
	// Announce makes i known for the time ttl, replacing its previous announcement.
	// The engine sets Seen. An Instance has an ID, and takes at most MaxInstance
	// bytes as JSON; ttl is above 0, and at most MaxLease.
	Announce(ctx context.Context, i Instance, ttl time.Duration) error
	// Withdraw removes the instance with that ID. Withdrawing an unknown one is not
	// an error.
	Withdraw(ctx context.Context, id string) error
	// Instances returns the known instances, sorted by name.
	Instances(ctx context.Context) ([]Instance, error)
}

// MaxInstance bounds an Instance, as JSON, in bytes.
const MaxInstance = 8 << 10

// CheckAnnouncement returns i as JSON, or an error if the announcement is outside the
// bounds of every Roster.
func CheckAnnouncement(i Instance, ttl time.Duration) ([]byte, error) {
	data, err := json.Marshal(i)
	switch {
	case err != nil:
		return nil, fmt.Errorf("fleet: cannot encode the instance as JSON: %w", err)
	case i.ID == "":
		return nil, errors.New("fleet: an instance without an ID")
	case len(data) > MaxInstance:
		return nil, fmt.Errorf("fleet: an instance of %d bytes; at most %d", len(data), MaxInstance)
	case ttl <= 0 || ttl > MaxLease:
		return nil, fmt.Errorf("fleet: an announcement for %v; more than 0, at most %v", ttl, MaxLease)
	}
	return data, nil
}

// SortInstances sorts by name, then by ID.
func SortInstances(all []Instance) {
	slices.SortFunc(all, func(a, b Instance) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
}

// announced is an Instance that a Memory knows.
type announced struct {
	instance Instance
	until    time.Duration
}

// Announce implements [Roster].
func (m *Memory) Announce(ctx context.Context, i Instance, ttl time.Duration) error {
	if _, err := CheckAnnouncement(i, ttl); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.beginLocked(ctx, "announce")
	if err != nil {
		return err
	}
	m.forgetLocked(now)
	if _, known := m.instances[i.ID]; !known && len(m.instances) >= m.maxKeys {
		return &UnavailableError{Op: "announce", Err: errTooManyInstances}
	}
	i.Counts = maps.Clone(i.Counts)
	i.Seen = m.start.Add(now)
	m.instances[i.ID] = announced{i, now + ttl}
	return nil
}

var errTooManyInstances = errors.New("too many instances are known")

// forgetLocked drops the instances whose announcements have expired. m.mu must be
// held.
func (m *Memory) forgetLocked(now time.Duration) {
	maps.DeleteFunc(m.instances, func(_ string, a announced) bool { return a.until <= now })
}

// Withdraw implements [Roster].
func (m *Memory) Withdraw(ctx context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.beginLocked(ctx, "withdraw"); err != nil {
		return err
	}
	delete(m.instances, id)
	return nil
}

// Instances implements [Roster].
func (m *Memory) Instances(ctx context.Context) ([]Instance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.beginLocked(ctx, "instances")
	if err != nil {
		return nil, err
	}
	m.forgetLocked(now)
	var all []Instance
	for _, a := range m.instances {
		a.instance.Counts = maps.Clone(a.instance.Counts)
		all = append(all, a.instance)
	}
	SortInstances(all)
	return all, nil
}
