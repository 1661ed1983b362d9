package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A Report lists what is wrong with the files of a server, and what was done about
// it.
type Report struct {
	Dir     string         `json:"dir"`
	Streams []StreamReport `json:"streams"`
	Copy    string         `json:"copy,omitempty"` // the folder that keeps what was cut
	DryRun  bool           `json:"dry_run,omitempty"`
	Changed bool           `json:"changed"` // whether anything in the folder changed

	stored []*stored
	ledger []*contents
}

// A StreamReport describes the jobs of one namespace.
type StreamReport struct {
	Namespace string    `json:"namespace"`
	Damage    []Damage  `json:"damage,omitempty"`
	Jobs      int       `json:"jobs"`    // present and complete
	Missing   []Missing `json:"missing"` // missing or incomplete
	Last      uint64    `json:"last"`    // last sequence that is present
	Mark      uint64    `json:"mark"`    // last sequence that was flushed
	Next      uint64    `json:"next,omitempty"`
	Unlisted  int       `json:"unlisted,omitempty"` // missing jobs of which only the number is known
	Seen      time.Time `json:"seen,omitzero"`      // when the Unlisted jobs were last present
}

// Damage is one fault in a file.
type Damage struct {
	File   string `json:"file"` // relative to the folder
	What   string `json:"what"`
	Offset int    `json:"offset,omitempty"`
	Bytes  int    `json:"bytes,omitempty"`
}

// A Missing is a job that lacks a message that was flushed.
type Missing struct {
	Queue string    `json:"queue"`
	ID    string    `json:"id"`
	What  string    `json:"what"` // "job", "result" or "progress"
	Since time.Time `json:"written"`

	m message
}

// Damaged reports whether anything is wrong.
func (r *Report) Damaged() bool {
	for _, s := range r.Streams {
		if len(s.Damage) > 0 || len(s.Missing) > 0 {
			return true
		}
	}
	return false
}

// A DamageError reports why a server was not started.
type DamageError struct{ Report *Report }

// Error says what is missing, since when, and what to do.
func (e *DamageError) Error() string {
	var parts []string
	for _, s := range e.Report.Streams {
		if text := s.summary(); text != "" {
			parts = append(parts, text)
		}
	}
	return fmt.Sprintf("the jobs in %s are damaged: %s. Nothing has been changed. See what can be recovered with "+
		"\"weir jobs repair --dir %s --dry-run\", recover it without --dry-run, then reload or restart the proxy; "+
		"or restore the missing files", e.Report.Dir, strings.Join(parts, "; "), e.Report.Dir)
}

// summary describes a stream in one sentence; it is empty if nothing is wrong.
func (s StreamReport) summary() string {
	var parts []string
	if s.Unlisted > 0 {
		parts = append(parts, fmt.Sprintf("all %d jobs of namespace %s that were present at %s are missing",
			s.Unlisted, s.Namespace, s.Seen.UTC().Format("2006-01-02 15:04:05 UTC")))
	} else if n := len(s.lost()); n > 0 {
		oldest := slices.MinFunc(s.Missing, func(a, b Missing) int { return a.Since.Compare(b.Since) })
		parts = append(parts, fmt.Sprintf("%d of %d jobs of namespace %s are missing or incomplete, written since %s",
			n, s.total(), s.Namespace, oldest.Since.UTC().Format("2006-01-02 15:04:05 UTC")))
	} else if len(s.Damage) > 0 {
		parts = append(parts, fmt.Sprintf("no job of namespace %s is known to be missing", s.Namespace))
	}
	for i, d := range s.Damage {
		if i == 3 {
			parts = append(parts, fmt.Sprintf("and %d more", len(s.Damage)-i))
			break
		}
		parts = append(parts, d.String())
	}
	return strings.Join(parts, ", ")
}

// lost returns the jobs in Missing, each once.
func (s StreamReport) lost() map[key]bool {
	all := map[key]bool{}
	for _, m := range s.Missing {
		all[m.m.job()] = true
	}
	return all
}

// Lost returns how many jobs are missing or incomplete.
func (s StreamReport) Lost() int { return max(len(s.lost()), s.Unlisted) }

// total returns how many jobs there were.
func (s StreamReport) total() int { return s.Jobs + len(s.lost()) }

// String returns, for example, "msgs/1.blk: 40 bytes at 1234 are no record".
func (d Damage) String() string { return d.File + ": " + d.What }

// HasJobs reports whether dir, or its mark, contains a trace of jobs.
func HasJobs(dir string) (bool, error) {
	mark, err := readMark(dir)
	if err != nil {
		return false, err
	}
	if mark == nil && exists(MarkPath(dir)) {
		return true, nil // the mark is damaged
	}
	all, err := names(dir, mark)
	return len(all) > 0, err
}

// Check compares the files of a stopped server with what was flushed. It changes
// nothing. It returns an error if the files are newer (ErrNewer) or cannot be read at
// all.
func Check(dir string, now time.Time) (*Report, error) {
	mark, err := readMark(dir)
	if err != nil {
		return nil, err
	}
	all, err := names(dir, mark)
	if err != nil {
		return nil, err
	}
	r := &Report{Dir: dir}
	for _, name := range all {
		if !strings.HasPrefix(name, StreamPrefix) {
			return nil, fmt.Errorf("%s has stream %s: %w", dir, name, ErrNewer)
		}
		var m StreamMark
		var at time.Time
		if mark != nil {
			m, at = mark.Streams[name], mark.At
		}
		if err := r.check(name, m, at, now); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// check adds the report on one stream.
func (r *Report) check(name string, mark StreamMark, at, now time.Time) error {
	c, err := readLedger(ledgerPath(r.Dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		c, err = newContents(), nil
	}
	if err != nil {
		return err
	}
	c.prune(now)
	s, err := readStream(r.Dir, name)
	sr := StreamReport{Namespace: strings.TrimPrefix(name, StreamPrefix), Last: s.last, Mark: max(c.last, mark.Last), Missing: []Missing{}}
	known := sr.Mark > 0
	if err := s.unreadable(err); err != nil {
		return err
	}
	if err != nil && (!errors.Is(err, fs.ErrNotExist) || known) {
		sr.damage(r.Dir, filepath.Join(s.dir, "msgs"), cause(err))
	}
	if s.form > formKnown {
		return fmt.Errorf("stream %s has messages of format %d; this program reads up to %d: %w", name, s.form, formKnown, ErrNewer)
	}
	if c.damaged {
		sr.damage(r.Dir, ledgerPath(r.Dir, name), "cannot be read in full, so it is unknown whether all jobs are present")
	}
	fault := metaFault(s.dir, name)
	if unopened(fault) {
		return fault
	}
	if fault != nil && (known || len(s.messages) > 0) &&
		copyFault(ledgerPath(r.Dir, name)+".", name) != nil {
		sr.damage(r.Dir, filepath.Join(s.dir, metaFiles[0]), cause(fault))
	}
	sr.holes(r.Dir, s, c.last)
	for _, m := range c.messages {
		if s.lacks(m, now) {
			sr.Missing = append(sr.Missing, Missing{m.queue, m.ID(), whatOf(m.kind), m.time, m})
		}
	}
	slices.SortFunc(sr.Missing, func(a, b Missing) int { return cmp.Compare(a.m.seq, b.m.seq) })
	sr.Jobs = s.jobs(now, sr.lost())
	if len(c.messages) == 0 && len(s.messages) == 0 {
		sr.Unlisted, sr.Seen = mark.Jobs, at // only the mark is left
	}
	switch {
	case s.last < sr.Mark && c.last < mark.Last && s.last >= c.last && !c.damaged:
		sr.damage(r.Dir, filepath.Join(s.dir, "msgs"), fmt.Sprintf(
			"ends at sequence %d but had reached %d: is it a copy, or is its disk not mounted? After restoring a copy, run weir jobs repair with --restored", s.last, mark.Last))
	case c.last < mark.Last && !c.damaged:
		sr.damage(r.Dir, ledgerPath(r.Dir, name), fmt.Sprintf("ends at sequence %d but had reached %d, so it is unknown whether all jobs are present", c.last, mark.Last))
	case s.last < sr.Mark:
		sr.damage(r.Dir, filepath.Join(s.dir, "msgs"), fmt.Sprintf("ends at sequence %d but had reached %d", s.last, sr.Mark))
	}
	r.Streams = append(r.Streams, sr)
	r.stored = append(r.stored, s)
	r.ledger = append(r.ledger, c)
	return nil
}

// unreadable returns an error if the folder of the blocks, or one of them, is there but
// cannot be opened, for its permissions or because too many files are open. That is no
// damage: a repair would cut what is only out of reach.
func (s *stored) unreadable(folder error) error {
	if unopened(folder) {
		return folder
	}
	for _, b := range s.blocks {
		if unopened(b.err) {
			return b.err
		}
	}
	return nil
}

// unopened reports whether something that is there could not be opened.
func unopened(err error) bool {
	p, ok := errors.AsType[*fs.PathError](err)
	return ok && p.Op == "open" && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) &&
		!errors.Is(err, syscall.EISDIR) && !errors.Is(err, syscall.ELOOP)
}

// formKnown is the newest format of items and states that this program reads.
const formKnown = 1

// holes adds the parts of block files that are not records. A hole at the end of the
// last block may be a write that a killed process left incomplete: nothing after the
// ledger's last sequence was ever acknowledged as flushed.
func (s *StreamReport) holes(dir string, from *stored, last uint64) {
	for i, b := range from.blocks {
		if b.err != nil {
			s.damage(dir, b.path, cause(b.err))
		}
		for _, h := range b.holes {
			if from.torn(i, h, last) {
				continue
			}
			s.Damage = append(s.Damage, Damage{inDir(dir, b.path), fmt.Sprintf("%d bytes at %d are no record", h.size, h.off), h.off, h.size})
		}
	}
}

// torn reports whether a hole is the rest of an incomplete write.
func (s *stored) torn(block int, h hole, last uint64) bool {
	return block == len(s.blocks)-1 && h.last && s.last >= last
}

func (s *StreamReport) damage(dir, path, what string) {
	s.Damage = append(s.Damage, Damage{File: inDir(dir, path), What: what})
}

func inDir(dir, path string) string {
	if rel, err := filepath.Rel(dir, path); err == nil {
		return rel
	}
	return path
}

// cause returns the text of an error without the path in it.
func cause(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "is missing"
	}
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Op + ": " + p.Err.Error()
	}
	return err.Error()
}

func whatOf(k kind) string {
	switch k {
	case work:
		return "job"
	case terminal:
		return "result"
	}
	return "progress"
}
