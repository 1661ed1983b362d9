package jobs

import "fmt"

// A Durability is what an accepted job survives. The zero Durability is unknown; in
// options it selects the default.
type Durability uint8

const (
	// DurabilityProcess: jobs survive when processes are killed, including the
	// server. A power loss can lose the most recent writes.
	DurabilityProcess Durability = 1 + iota
	// DurabilityDisk: jobs survive a power loss of the server's node. Each write is
	// flushed before it is acknowledged.
	DurabilityDisk
	// DurabilityMajority: jobs survive the loss of any minority of the servers. With
	// sync_interval: always on each server they also survive power loss. Without it,
	// acknowledged writes can be lost if one server loses power and returns before it
	// has caught up.
	DurabilityMajority
)

var durabilityNames = [...]string{"", "process", "disk", "majority"}

// String returns "process", "disk" or "majority", and "" for the zero value.
func (d Durability) String() string {
	if int(d) < len(durabilityNames) {
		return durabilityNames[d]
	}
	return fmt.Sprintf("durability(%d)", d)
}

// MarshalText returns the same as String.
func (d Durability) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses what String returns.
func (d *Durability) UnmarshalText(text []byte) error {
	for i, name := range durabilityNames {
		if name == string(text) {
			*d = Durability(i)
			return nil
		}
	}
	return fmt.Errorf(`jobs: durability %q; want "process", "disk" or "majority"`, text)
}
