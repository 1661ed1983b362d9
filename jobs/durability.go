package jobs

import "fmt"

// A Durability says what an accepted job survives. The zero Durability says
// nothing, and in options asks for the default.
type Durability uint8

const (
	// DurabilityProcess: a killed process, the server's too. What was written in the last
	// moments can be lost with the power.
	DurabilityProcess Durability = 1 + iota
	// DurabilityDisk: the loss of power of the server's node. Each write is flushed before
	// it is acknowledged.
	DurabilityDisk
	// DurabilityMajority: the loss of any minority of the servers. With sync_interval:
	// always on each of them also the loss of power; without it, by one server
	// whose power is lost, and that is back before it has caught up, acknowledged
	// writes can be lost.
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

// MarshalText writes what String returns.
func (d Durability) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what String returns.
func (d *Durability) UnmarshalText(text []byte) error {
	for i, name := range durabilityNames {
		if name == string(text) {
			*d = Durability(i)
			return nil
		}
	}
	return fmt.Errorf(`jobs: durability %q; want "process", "disk" or "majority"`, text)
}
