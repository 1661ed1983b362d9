package weirhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weir-go/weir/internal/disk"
	"github.com/weir-go/weir/option"
)

// FolderOptions give a Cache a second tier in a folder: stored responses survive a
// restart, and the end of the process at any moment.
//
// The folder has the response headers and bodies in clear, readable by its user alone.
// Responses that are only for requests with the same Authorization or Cookie are not
// written. A response that the policy of its Handler would no longer store in the same
// way is not used.
type FolderOptions struct {
	// Folder is created if it does not exist. It belongs to one Cache at a time, and
	// should contain nothing else. Empty means that the Cache is in memory only.
	Folder string
	// Bytes is the bound for all files in it. 0 means 1 GiB, at least 16 MiB.
	Bytes int64
	// Objects is the most responses that are kept there, about 150 bytes of memory
	// each. 0 means 1,000,000.
	Objects int
	// Logger gets a line for each damaged file, and when the folder cannot be written.
	// Nil means no log.
	Logger *slog.Logger
}

// DefaultFolderBytes is the bound of a folder whose FolderOptions have none.
const DefaultFolderBytes = 1 << 30

// ErrFolderInUse is matched by the error of OpenFolder if another Cache, in this
// process or another one, has the folder open.
var ErrFolderInUse = disk.ErrInUse

// ErrFolder is matched by the error of OpenFolder for a Cache that has a folder.
var ErrFolder = errors.New("weirhttp: the cache has a folder")

// Validate returns all faults of o at once, joined by errors.Join, each an
// *OptionError; or nil.
func (o FolderOptions) Validate() error {
	f := option.Faults{Package: "weirhttp", Prefix: "FolderOptions."}
	f.Check(o.Bytes == 0 || o.Bytes >= disk.MinBytes && o.Bytes <= disk.MaxBytes, "Bytes", o.Bytes, "0, or from 16 MiB to 16 TiB")
	f.Check(o.Objects >= 0 && o.Objects <= disk.MaxObjects, "Objects", o.Objects, "from 0 to 100,000,000")
	return f.Err()
}

// OpenFolder opens a folder for c, until [Cache.Close]. Call it before c is used. The
// responses in the folder are found at once, without those that were purged through it
// before. With an empty Folder it does nothing.
//
// Writing happens in the background, and may lag behind or pause: then responses are
// in memory only, which is counted. A purge returns when it is durable. In a fleet, a
// response from the folder is used once the Tier confirms that it has the same one.
func (c *Cache) OpenFolder(o FolderOptions) error {
	if err := o.Validate(); err != nil || o.Folder == "" {
		return err
	}
	if o.Bytes == 0 {
		o.Bytes = DefaultFolderBytes
	}
	c.joining.Lock()
	defer c.joining.Unlock()
	if c.folder.Load() != nil {
		return ErrFolder
	}
	if c.use == usedPrivately {
		return ErrPrivateCache
	}
	d, err := disk.Open(disk.Options{Folder: o.Folder, Bytes: o.Bytes, Objects: o.Objects, Logger: o.Logger})
	if err != nil {
		return fmt.Errorf("weirhttp: %w", err)
	}
	c.store.AttachDisk(d)
	c.folder.Store(d)
	return nil
}

// folderPatience is how long a purge waits for the disk.
const folderPatience = 10 * time.Second

// durable waits until all purges so far are durable in the folder.
func (c *Cache) durable(ctx context.Context) error {
	if c.folder.Load() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, folderPatience)
	defer cancel()
	if err := c.store.Durable(ctx); err != nil {
		return fmt.Errorf("weirhttp: purged, but it may be back after a restart: %w", err)
	}
	return nil
}

// FolderStats are the statistics of the folder of a Cache.
type FolderStats struct {
	Bound     int64 `json:"bound"`     // most bytes that the folder may have
	Bytes     int64 `json:"bytes"`     // of its files
	Responses int   `json:"responses"` // responses in the folder
	Queued    int64 `json:"queued"`    // bytes that wait to be written

	Hits      uint64 `json:"hits"`      // responses found there, because memory did not have them
	Written   uint64 `json:"written"`   // responses written since the start
	Evicted   uint64 `json:"evicted"`   // responses removed to make room
	Dropped   uint64 `json:"dropped"`   // not written: the queue was full, writing paused, or they were too large
	Errors    uint64 `json:"errors"`    // failed operations on files; writing pauses after one
	Damaged   uint64 `json:"damaged"`   // responses and files with a wrong checksum
	Flushes   uint64 `json:"flushes"`   // flushes for purges; several purges can share one
	Discarded uint64 `json:"discarded"` // how often all was removed, because a purge could not be recorded
}

// folderStats returns the statistics of the folder, or nil without one.
func (c *Cache) folderStats() *FolderStats {
	d := c.folder.Load()
	if d == nil {
		return nil
	}
	s := d.Stats()
	return &FolderStats{
		Bound: s.Bound, Bytes: s.Bytes, Responses: s.Objects, Queued: s.Queued,
		Hits: s.Hits, Written: s.Written, Evicted: s.Evicted, Dropped: s.Dropped + s.Paused + s.TooBig,
		Errors: s.Errors, Damaged: s.Damaged, Flushes: s.Flushes, Discarded: s.Discarded,
	}
}
