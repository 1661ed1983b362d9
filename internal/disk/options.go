package disk

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/weir-go/weir/option"
)

// Version is the version of the format of all files. A folder with another version
// is emptied.
const Version = 1

// ErrInUse is returned by Open if another Store has the folder open.
var ErrInUse = errors.New("disk: another process uses the folder")

// ErrClosed is returned by Sync after Close.
var ErrClosed = errors.New("disk: closed")

// Options configure a Store.
type Options struct {
	// Folder is created if it does not exist. It should contain nothing else. Files
	// with other names than those of a Store stay, and do not count.
	Folder string
	// Bytes is the bound for all files together, at least MinBytes.
	Bytes int64
	// Objects is the most records that the index holds, about 150 bytes of memory
	// each. 0 means 1,000,000.
	Objects int
	// QueueBytes is the most that waits to be written. A record that does not fit is
	// dropped and counted, unless the queue is empty. 0 means 32 MiB.
	QueueBytes int64
	// Pause is how long nothing is written after a failed write. 0 means 30 s.
	Pause time.Duration
	// Logger gets a line for each damaged file, and for the first of a series of
	// failed writes. Nil means no log.
	Logger *slog.Logger
	// Files is the file system. Nil means that of the operating system.
	Files Files
}

// Defaults and bounds of Options.
const (
	MinBytes          = 16 << 20
	MaxBytes          = 16 << 40
	DefaultObjects    = 1_000_000
	MaxObjects        = 100_000_000
	DefaultQueueBytes = 32 << 20
	DefaultPause      = 30 * time.Second
)

// Validate returns all faults of o at once, joined by errors.Join, each an
// *option.Error; or nil.
func (o Options) Validate() error {
	f := option.Faults{Package: "disk", Prefix: "Options."}
	f.Check(o.Folder != "", "Folder", `""`, "the path of a folder")
	f.Check(o.Bytes >= MinBytes && o.Bytes <= MaxBytes, "Bytes", o.Bytes, "from 16 MiB to 16 TiB")
	f.Check(o.Objects >= 0 && o.Objects <= MaxObjects, "Objects", o.Objects, "from 0 to 100,000,000")
	f.Check(o.QueueBytes >= 0, "QueueBytes", o.QueueBytes, "0 or more")
	f.Check(o.Pause >= 0, "Pause", o.Pause, "0 or more")
	return f.Err()
}

func (o Options) withDefaults() Options {
	o.Objects = cmp.Or(o.Objects, DefaultObjects)
	o.QueueBytes = cmp.Or(o.QueueBytes, DefaultQueueBytes)
	o.Pause = cmp.Or(o.Pause, DefaultPause)
	if o.Files == nil {
		o.Files = system{}
	}
	return o
}

// segmentBytes is the size at which a segment is sealed. It is also what has to be
// read to open the folder after a kill.
func (o Options) segmentBytes() int64 {
	return min(max(o.Bytes/64, 1<<20), max(256<<20, min(o.Bytes/1024, 2<<30)))
}

// segmentObjects is the number of records at which a segment is sealed.
func (o Options) segmentObjects() int { return max(o.Objects/16, 1) }

// logBytes is the size at which the log of removals is rewritten.
func (o Options) logBytes() int64 { return min(max(o.Bytes/64, 256<<10), 8<<20) }

// maxRecord is the size of the largest record.
func (o Options) maxRecord() int64 { return min(o.Bytes/8, 1<<30) }
