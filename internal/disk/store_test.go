package disk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/disk"
)

// open opens the folder of a machine, or fails. log may be nil.
func open(t *testing.T, m *machine, o disk.Options) *disk.Store {
	t.Helper()
	o.Folder, o.Files = "/f", m
	if o.Bytes == 0 {
		o.Bytes = disk.MinBytes
	}
	s, err := disk.Open(o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return s
}

func closeStore(t *testing.T, s *disk.Store) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

func logger() (*slog.Logger, *bytes.Buffer) {
	b := new(bytes.Buffer)
	return slog.New(slog.NewTextHandler(b, nil)), b
}

func any1([]byte) bool { return true }

// find returns the body of key, or "none"; with an asterisk if it was expired.
func find(t *testing.T, s *disk.Store, key string) string {
	t.Helper()
	e := s.Get(key, any1)
	if e == nil {
		return "none"
	}
	defer e.Close()
	if head := string(e.Head); head != "head" && head != "" {
		t.Errorf("Get(%q) has the head %q; want what was stored", key, head)
	}
	b, err := e.Body()
	if err != nil {
		t.Errorf("Body of %q: %v", key, err)
	}
	if e.Soft {
		return string(b) + "*"
	}
	return string(b)
}

func want(t *testing.T, s *disk.Store, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if got := find(t, s, key); got != value {
			t.Errorf("Get(%q) = %.40q; want %.40q", key, got, value)
		}
	}
}

func put(s *disk.Store, key, body string, tags ...string) {
	s.Put(disk.Record{Key: key, Head: []byte("head"), Body: []byte(body), Tags: tags})
}

func syncAll(t *testing.T, s *disk.Store, tickets ...disk.Ticket) {
	t.Helper()
	for _, ticket := range tickets {
		if err := s.Sync(t.Context(), ticket); err != nil {
			t.Errorf("Sync: %v", err)
		}
	}
}

func TestH28_RecordsSurviveARestart(t *testing.T) {
	for _, killed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newMachine()
			s := open(t, m, disk.Options{})
			for _, key := range []string{"kept", "purged", "expired", "tagged", "softly", "replaced"} {
				put(s, key, key+" 1", "of "+key)
			}
			s.Put(disk.Record{Key: "late", Expires: time.Now().Unix() + 10, Body: []byte("late")})
			s.Put(disk.Record{Key: "soft", Soft: true, Body: []byte("soft")})
			put(s, "replaced", "replaced 2")
			synctest.Wait()
			syncAll(t, s, purge(s, "purged", false), purge(s, "expired", true), s.PurgeTags(false, "of tagged"), s.PurgeTags(true, "of softly"))
			expect := map[string]string{
				"kept": "kept 1", "purged": "none", "expired": "expired 1*", "tagged": "none", "softly": "softly 1*",
				"replaced": "replaced 2", "late": "late", "soft": "soft*", "unknown": "none",
			}
			want(t, s, expect)
			for range 2 { // the second start has what the first one wrote
				if killed {
					m.kill()
					next := m.boot(nil, false)
					closeStore(t, s)
					m = next
				} else {
					closeStore(t, s)
				}
				s = open(t, m, disk.Options{})
				want(t, s, expect)
			}
			time.Sleep(10 * time.Second)
			want(t, s, map[string]string{"late": "none", "kept": "kept 1"})
			syncAll(t, s, s.PurgeAll(true))
			want(t, s, map[string]string{"kept": "kept 1*"})
			syncAll(t, s, s.PurgeAll(false))
			put(s, "new", "new")
			closeStore(t, s)
			s = open(t, m, disk.Options{})
			want(t, s, map[string]string{"kept": "none", "late": "none", "new": "new"})
			if got := s.Stats().Objects; got != 1 {
				t.Errorf("%d objects; want 1", got)
			}
			closeStore(t, s)
		})
	}
}

func TestH28_VariantsOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		s := open(t, m, disk.Options{})
		variant := func(name string) string {
			e := s.Get("k", func(head []byte) bool { return string(head) == name })
			if e == nil {
				return "none"
			}
			defer e.Close()
			b, _ := e.Body()
			return string(b)
		}
		store := func(name, body string, all bool) {
			s.Put(disk.Record{Key: "k", Variant: name, All: all, Head: []byte(name), Body: []byte(body)})
			synctest.Wait()
		}
		check := func(when, a, b, c string) {
			t.Helper()
			if variant("a") != a || variant("b") != b || variant("c") != c {
				t.Errorf("%s: variants %s, %s, %s; want %s, %s, %s", when, variant("a"), variant("b"), variant("c"), a, b, c)
			}
		}
		store("a", "1", false)
		store("b", "2", false)
		store("a", "3", false)
		check("stored", "3", "2", "none")
		closeStore(t, s)
		s = open(t, m, disk.Options{})
		check("after a restart", "3", "2", "none")
		syncAll(t, s, s.Remove("k", "b"))
		check("one removed", "3", "none", "none")
		store("c", "4", true)
		check("all replaced", "none", "none", "4")
		closeStore(t, s)
		s = open(t, m, disk.Options{})
		check("after another restart", "none", "none", "4")
		closeStore(t, s)
	})
}

// Without a record, a removal costs no flush.
func TestH28_APurgeOfNothingWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		s := open(t, m, disk.Options{})
		put(s, "a", "a")
		synctest.Wait()
		for _, ticket := range []disk.Ticket{purge(s, "b", false), purge(s, "b", true), s.Remove("b", ""), s.PurgeTags(false, "tag")} {
			if ticket != 0 {
				t.Errorf("ticket %d for a removal that removed nothing; want 0", ticket)
			}
		}
		closeStore(t, s)
	})
}

// Purges that come while another is flushed share the next flush, and none returns
// before it.
func TestH28_PurgesShareFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const flush = 10 * time.Millisecond
		m := newMachine()
		s := open(t, m, disk.Options{})
		for i := range 100 {
			put(s, fmt.Sprint(i), "x")
		}
		synctest.Wait()
		m.sync = flush
		begin := time.Now()
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Microsecond)
				asked := time.Now()
				syncAll(t, s, purge(s, fmt.Sprint(i), false))
				if took := time.Since(asked); took < flush || took > 2*flush {
					t.Errorf("purge %d was durable after %v; want from %v to %v", i, took, flush, 2*flush)
				}
			})
		}
		wg.Wait()
		if st := s.Stats(); st.Flushes > 3 || st.Removals != 100 || time.Since(begin) > 3*flush {
			t.Errorf("%d flushes of %d removals in %v; want at most 3 of 100 in 30ms", st.Flushes, st.Removals, time.Since(begin))
		}
		closeStore(t, s)
	})
}

func TestSyncEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		s := open(t, m, disk.Options{})
		put(s, "a", "a")
		synctest.Wait()
		m.sync = time.Minute
		cause := errors.New("cause")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		if err := s.Sync(ctx, purge(s, "a", false)); !errors.Is(err, cause) {
			t.Errorf("Sync = %v; want %v", err, cause)
		}
		closeStore(t, s)
		if err := s.Sync(t.Context(), s.PurgeAll(false)); err != nil {
			t.Errorf("Sync of nothing after Close = %v; want nil", err)
		}
	})
}

// The folder stays within its bound, and has the newest records.
func TestH28_TheFolderStaysWithinItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		s := open(t, m, disk.Options{})
		body := strings.Repeat("x", 20_000)
		for i := range 4 * disk.MinBytes / len(body) {
			put(s, fmt.Sprint(i), body)
			if i%3 == 0 {
				purge(s, fmt.Sprint(i-5), false)
			}
			if i%10 == 0 {
				synctest.Wait()
				if got := m.size(); got > disk.MinBytes {
					t.Fatalf("the files have %d bytes after %d records; want at most %d", got, i, disk.MinBytes)
				}
			}
		}
		synctest.Wait()
		st := s.Stats()
		if last := fmt.Sprint(4*disk.MinBytes/len(body) - 1); find(t, s, last) != body || find(t, s, "0") != "none" {
			t.Error("the newest record is gone, or the oldest is there")
		}
		if st.Bytes < disk.MinBytes*3/4 || st.Dropped+st.Paused+st.Errors > 0 || st.Evicted == 0 {
			t.Errorf("stats = %+v; want most of the bound used, some evicted, and no errors", st)
		}
		closeStore(t, s)
		s = open(t, m, disk.Options{Objects: 20})
		if got := s.Stats().Objects; got > 20 {
			t.Errorf("%d objects after a restart with the bound 20", got)
		}
		closeStore(t, s)
	})
}

func TestH28_TheIndexIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		s := open(t, m, disk.Options{Objects: 1000})
		for i := range 5000 {
			put(s, fmt.Sprint(i), "x")
			synctest.Wait()
			if got := s.Stats().Objects; got > 1000 {
				t.Fatalf("%d objects; want at most 1000", got)
			}
		}
		if got := s.Stats(); got.Objects < 800 || find(t, s, "4999") != "x" {
			t.Errorf("stats = %+v; want at least 800 objects, and the newest", got)
		}
		closeStore(t, s)
	})
}

// A full queue drops records. The records that they would have replaced are gone nevertheless.
func TestH28_TheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		s := open(t, m, disk.Options{QueueBytes: 10_000})
		put(s, "a", "old")
		synctest.Wait()
		put(s, "big", strings.Repeat("x", 50_000)) // the queue is empty: it is written
		synctest.Wait()
		want(t, s, map[string]string{"big": strings.Repeat("x", 50_000)})
		m.setFault(func(op, _ string, size int) (int, error) {
			if op == "write" {
				time.Sleep(time.Second)
			}
			return size, nil
		})
		for i := range 30 {
			put(s, fmt.Sprint(i), strings.Repeat("x", 1000))
		}
		put(s, "a", strings.Repeat("new", 2000))
		if st := s.Stats(); st.Dropped < 20 || st.Queued > 10_000 {
			t.Errorf("%d dropped, %d bytes queued; want at least 20, at most 10,000", st.Dropped, st.Queued)
		}
		want(t, s, map[string]string{"a": "none"})
		time.Sleep(time.Minute)
		closeStore(t, s)
		s = open(t, m, disk.Options{})
		want(t, s, map[string]string{"a": "none", "0": strings.Repeat("x", 1000), "29": "none"})
		closeStore(t, s)
	})
}

// A body of several blocks is read block by block, from any position.
func TestH28_LargeBodiesAreStreamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		s := open(t, m, disk.Options{})
		body := make([]byte, 5*disk.BlockSize+100)
		for i := range body {
			body[i] = byte(i / 1000)
		}
		put(s, "k", string(body))
		synctest.Wait()
		e := s.Get("k", any1)
		if e == nil || e.Size != int64(len(body)) {
			t.Fatalf("Get = %+v; want a body of %d bytes", e, len(body))
		}
		defer e.Close()
		r := e.NewReader()
		var all bytes.Buffer
		if n, err := r.WriteTo(&all); err != nil || n != e.Size || !bytes.Equal(all.Bytes(), body) {
			t.Errorf("WriteTo = %d, %v, the same bytes %v; want %d", n, err, bytes.Equal(all.Bytes(), body), e.Size)
		}
		for _, at := range []int64{0, 1, disk.BlockSize - 1, disk.BlockSize, 3*disk.BlockSize + 7, e.Size - 1, e.Size} {
			if _, err := r.Seek(at, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, body[at:]) {
				t.Errorf("read from %d: %d bytes, %v; want %d", at, len(got), err, len(body[at:]))
			}
		}
		r.Close()
		// A reader keeps its file, even if the record goes.
		s.PurgeAll(false)
		closeStore(t, s)
		if got, err := e.Body(); err != nil || !bytes.Equal(got, body) {
			t.Errorf("Body after Close: %d bytes, %v; want all", len(got), err)
		}
	})
}

func TestH28_AFolderBelongsToOneProcess(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "cache")
	o := disk.Options{Folder: folder, Bytes: disk.MinBytes}
	s, err := disk.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Open(o); !errors.Is(err, disk.ErrInUse) || !strings.Contains(err.Error(), folder) {
		t.Errorf("Open of an open folder: %v; want %v with the folder", err, disk.ErrInUse)
	}
	put(s, "a", "a")
	closeStore(t, s)
	_ = filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			t.Fatal(err)
		}
		info, err := d.Info()
		if err != nil {
			t.Fatal(err)
		}
		if perm := info.Mode().Perm(); perm != 0o600 && !d.IsDir() || d.IsDir() && perm != 0o700 {
			t.Errorf("%s has the mode %v; want access for its user alone", path, perm)
		}
		return nil
	})
	if s, err = disk.Open(o); err != nil {
		t.Fatalf("Open after Close: %v", err)
	}
	want(t, s, map[string]string{"a": "a"})
	closeStore(t, s)
}

func TestOptionsAreValidated(t *testing.T) {
	o := disk.Options{Bytes: 1, Objects: -1, QueueBytes: -1, Pause: -1}
	_, err := disk.Open(o)
	for _, text := range []string{"Options.Folder", "Options.Bytes is 1, must be from 16 MiB", "Options.Objects is -1", "Options.QueueBytes is -1", "Options.Pause is -1"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("Open = %v; want an error with %q", err, text)
		}
	}
}

func purge(s *disk.Store, key string, soft bool) disk.Ticket {
	_, t := s.Purge(key, soft)
	return t
}
