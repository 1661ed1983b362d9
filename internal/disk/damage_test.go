package disk_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/disk"
	"github.com/weir-go/weir/internal/histories"
)

// A flipped bit costs the record that has it, or the file's records. It never gives
// wrong bytes, or brings back what was purged.
func TestH28_FlippedBits(t *testing.T) {
	kept, rounds := 0, 0
	for seed := range histories.Seeds(t, 40, 300) {
		rounds++
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			m := newMachine()
			s := open(t, m, disk.Options{Objects: 160})
			body := func(i int) string { return strings.Repeat(fmt.Sprint(i, " "), 50+i*i%300) }
			for i := range 40 {
				put(s, fmt.Sprint(i), body(i))
				synctest.Wait()
			}
			for i := range 10 {
				syncAll(t, s, purge(s, fmt.Sprint(i), false))
			}
			closeStore(t, s)
			files := append(m.list(".segment"), append(m.list(".hint"), m.list(".log")...)...)
			name := files[r.IntN(len(files))]
			m.mu.Lock()
			bits := 8 * len(m.names[name].data)
			m.mu.Unlock()
			m.flip(t, name, r.IntN(bits))
			log, lines := logger()
			s = open(t, m, disk.Options{Objects: 160, Logger: log})
			lost := 0
			for i := range 40 {
				switch got := find(t, s, fmt.Sprint(i)); {
				case got == "none":
					lost++
				case got != body(i) || i < 10:
					t.Errorf("bit flipped in %s: record %d = %.20q; want %.20q or none", name, i, got, body(i))
				default:
					kept++
				}
			}
			if !strings.HasSuffix(name, ".log") && lost > 10+10 {
				t.Errorf("bit flipped in %s: %d records are lost; want at most those of one file, 10", name, lost-10)
			}
			if n := strings.Count(lines.String(), "\n"); n > 1 || n == 0 && lost > 10 {
				t.Errorf("bit flipped in %s: %d lines in the log:\n%s", name, n, lines)
			}
			closeStore(t, s)
		})
	}
	if kept < rounds*15 {
		t.Errorf("%d records kept in %d rounds; want most", kept, rounds)
	}
}

// A damaged block of a large body is not passed on, nor anything after it.
func TestH28_ADamagedBlockEndsTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		s := open(t, m, disk.Options{})
		body := strings.Repeat("0123456789", 30_000)
		put(s, "k", body)
		synctest.Wait()
		m.flip(t, m.list(".segment")[0], 8*(2*disk.BlockSize+5000))
		e := s.Get("k", any1)
		var got strings.Builder
		r := e.NewReader()
		n, err := r.WriteTo(&got)
		if err == nil || n != 2*disk.BlockSize && n != disk.BlockSize || got.String() != body[:n] {
			t.Errorf("WriteTo = %d, %v; want the blocks before the damaged one, and an error", n, err)
		}
		r.Close()
		e.Close()
		want(t, s, map[string]string{"k": "none"})
		if st := s.Stats(); st.Damaged != 1 {
			t.Errorf("%d damaged; want 1", st.Damaged)
		}
		closeStore(t, s)
	})
}

// A full disk is no error of Put. Writing pauses, and goes on when there is room.
func TestH28_AFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		log, lines := logger()
		s := open(t, m, disk.Options{Logger: log})
		put(s, "a", "a")
		put(s, "b", "b")
		synctest.Wait()
		torn := func(op, name string, size int) (int, error) {
			if op == "write" && strings.HasSuffix(name, ".segment") {
				return size / 2, syscall.ENOSPC
			}
			return size, nil
		}
		m.setFault(torn)
		for i := range 10 {
			put(s, fmt.Sprint(i), strings.Repeat("x", 1000))
			synctest.Wait()
		}
		put(s, "b", "b2")
		st := s.Stats()
		if st.Paused != 11 || st.Errors != 1 || strings.Count(lines.String(), "\n") != 1 {
			t.Errorf("stats = %+v, log %s; want 11 not written, one error, one line", st, lines)
		}
		want(t, s, map[string]string{"a": "a", "0": "none", "b": "none"})
		m.setFault(nil)
		time.Sleep(disk.DefaultPause + time.Second)
		put(s, "later", "later")
		synctest.Wait()
		m.kill()
		next := m.boot(nil, false)
		closeStore(t, s)
		s = open(t, next, disk.Options{Logger: log})
		want(t, s, map[string]string{"a": "a", "0": "none", "b": "none", "later": "later"})
		closeStore(t, s)
	})
}

// If there is no room for a purge either, the oldest records give theirs. If purges
// cannot be recorded at all, no record is left to come back.
func TestH28_APurgeOnAFullDisk(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault func(removed *bool) func(op, name string, size int) (int, error)
		kept  bool // records that were not purged
		fails bool // the purge is not durable, and Sync returns an error
	}{
		{"room when a file goes", func(removed *bool) func(op, name string, size int) (int, error) {
			return func(op, _ string, size int) (int, error) {
				*removed = *removed || op == "remove"
				if op == "write" && !*removed {
					return 0, syscall.ENOSPC
				}
				return size, nil
			}
		}, true, false},
		{"no flush", func(*bool) func(op, name string, size int) (int, error) {
			failed := false
			return func(op, name string, size int) (int, error) {
				if op == "sync" && !failed && strings.HasPrefix(name, "removals.") {
					failed = true
					return 0, syscall.EIO
				}
				return size, nil
			}
		}, false, false},
		{"nothing can be written or removed", func(*bool) func(op, name string, size int) (int, error) {
			return func(op, _ string, size int) (int, error) {
				if op == "read" {
					return size, nil
				}
				return 0, syscall.EROFS
			}
		}, false, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine()
				s := open(t, m, disk.Options{Objects: 32}) // two records in a segment
				for i := range 12 {
					put(s, fmt.Sprint(i), "x")
					synctest.Wait()
				}
				m.setFault(row.fault(new(bool)))
				err := s.Sync(t.Context(), purge(s, "6", false))
				if (err != nil) != row.fails {
					t.Errorf("Sync = %v; want an error: %v", err, row.fails)
				}
				want(t, s, map[string]string{"6": "none"})
				if kept := find(t, s, "11") == "x"; kept != row.kept {
					t.Errorf("other records are kept: %v; want %v", kept, row.kept)
				}
				m.setFault(nil)
				time.Sleep(2 * disk.DefaultPause)
				synctest.Wait()
				put(s, "new", "new")
				synctest.Wait()
				want(t, s, map[string]string{"6": "none", "new": "new"})
				m.kill()
				next := m.boot(rand.New(rand.NewPCG(1, 1)), true)
				closeStore(t, s)
				s = open(t, next, disk.Options{})
				want(t, s, map[string]string{"6": "none"})
				closeStore(t, s)
			})
		})
	}
}

// What is not weir's stays, and costs nothing but a line.
func TestH28_ForeignFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		s := open(t, m, disk.Options{})
		put(s, "a", "a")
		closeStore(t, s)
		foreign := map[string]string{"notes.txt": "mine", "00000001.segment.bak": "mine", "0000002a.segment": "not a segment", "0000002b.hint": "x"}
		for name, text := range foreign {
			m.names["/f/"+name] = &inode{data: []byte(text)}
		}
		log, lines := logger()
		s = open(t, m, disk.Options{Logger: log})
		want(t, s, map[string]string{"a": "a"})
		for _, name := range []string{"notes.txt", "00000001.segment.bak"} {
			if m.names["/f/"+name] == nil || strings.Count(lines.String(), "file="+name) != 1 {
				t.Errorf("%s is gone, or has not one line in the log:\n%s", name, lines)
			}
		}
		if m.names["/f/0000002a.segment"] != nil || strings.Count(lines.String(), "0000002a.segment") != 1 {
			t.Errorf("a file with the name of a segment stays, or has not one line in the log:\n%s", lines)
		}
		put(s, "b", "b")
		closeStore(t, s)
	})
}

// A folder of another version is emptied, with one line: it is a cache, and its
// purges cannot be known.
func TestH28_AnotherVersionOfTheFormat(t *testing.T) {
	for _, end := range []string{".log", ".segment"} {
		synctest.Test(t, func(t *testing.T) {
			m := newMachine()
			s := open(t, m, disk.Options{})
			put(s, "a", "a")
			closeStore(t, s)
			m.names[m.list(end)[0]].data[8]++
			log, lines := logger()
			s = open(t, m, disk.Options{Logger: log})
			want(t, s, map[string]string{"a": "none"})
			if text := lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "format version 2") {
				t.Errorf("log = %s; want one line with the version", text)
			}
			if got := m.list(".segment"); len(got) != 0 {
				t.Errorf("files %v are left; want none", got)
			}
			put(s, "b", "b")
			closeStore(t, s)
			s = open(t, m, disk.Options{})
			want(t, s, map[string]string{"b": "b"})
			closeStore(t, s)
		})
	}
}

// Without its log, the purges are unknown.
func TestH28_WithoutItsLogAFolderIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		s := open(t, m, disk.Options{})
		put(s, "a", "a")
		closeStore(t, s)
		delete(m.names, m.list(".log")[0])
		s = open(t, m, disk.Options{})
		want(t, s, map[string]string{"a": "none"})
		closeStore(t, s)
	})
}

// The log stays short, and forgets nothing that is needed.
func TestH28_TheLogIsShortened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		s := open(t, m, disk.Options{})
		put(s, "purged", "old", "tag")
		put(s, "tagged", "old", "other")
		put(s, "kept", "kept")
		synctest.Wait()
		syncAll(t, s, purge(s, "purged", false))
		syncAll(t, s, s.PurgeTags(false, "other"))
		for i := range 20_000 {
			put(s, fmt.Sprint("k", i%100), "x")
			if i%100 == 99 {
				synctest.Wait()
				for k := range 100 {
					purge(s, fmt.Sprint("k", k), false)
				}
				synctest.Wait()
			}
		}
		m.mu.Lock()
		size := len(m.names["/f/removals.log"].data)
		m.mu.Unlock()
		if size > 2*256<<10 {
			t.Errorf("the log has %d bytes; want it rewritten at 256 KiB", size)
		}
		m.kill()
		next := m.boot(nil, false)
		closeStore(t, s)
		s = open(t, next, disk.Options{})
		want(t, s, map[string]string{"purged": "none", "tagged": "none", "k5": "none", "kept": "kept"})
		closeStore(t, s)
	})
}

// Tags are remembered up to a bound. Beyond it, what has tags goes, and nothing else.
func TestH28_PurgedTagsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		s := open(t, m, disk.Options{})
		put(s, "tagged", "x", "one")
		put(s, "plain", "x")
		synctest.Wait()
		tags := make([]string, 1000)
		for round := range 140 {
			for i := range tags {
				tags[i] = fmt.Sprint(round, i)
			}
			s.PurgeTags(false, tags...)
		}
		want(t, s, map[string]string{"tagged": "none", "plain": "x"})
		closeStore(t, s)
		s = open(t, m, disk.Options{})
		want(t, s, map[string]string{"tagged": "none", "plain": "x"})
		closeStore(t, s)
	})
}

func TestAFolderThatCannotBeUsed(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Open(disk.Options{Folder: file, Bytes: disk.MinBytes}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("Open of a file = %v; want an error with its name", err)
	}
	m := newMachine()
	m.fault = full
	if _, err := disk.Open(disk.Options{Folder: "/f", Bytes: disk.MinBytes, Files: m}); err == nil {
		t.Error("Open of a folder without room = nil; want an error")
	}
	m.fault = nil
	closeStore(t, open(t, m, disk.Options{})) // and it is not locked
}

// What is not in the index any more, but in a file, a purge does not find. It must not
// come back even so. In each case a record of variant y stays in its file.
func TestH28_APurgeThatFindsNothingHolds(t *testing.T) {
	rewrite := func(s *disk.Store, variant string, all bool) {
		s.Put(disk.Record{Key: "a", Variant: variant, All: all, Body: []byte("new")})
	}
	for name, hide := range map[string]func(m *machine, s *disk.Store){
		"a record that replaced all others is replaced before it is written": func(m *machine, s *disk.Store) {
			m.setFault(func(op, name string, size int) (int, error) {
				if op == "write" && strings.HasSuffix(name, ".segment") {
					return 0, syscall.ENOSPC
				}
				return size, nil
			})
			rewrite(s, "x", true)
			rewrite(s, "x", false)
		},
		"a record that replaced all others is removed before it is written": func(_ *machine, s *disk.Store) {
			rewrite(s, "x", true)
			s.Remove("a", "x")
		},
		"a record that replaced all others cannot be read": func(m *machine, s *disk.Store) {
			rewrite(s, "x", true)
			synctest.Wait()
			m.setFault(failing("read"))
			s.Get("a", any1)
		},
		"the end of a file cannot be cut off": func(m *machine, s *disk.Store) {
			m.setFault(func(op, name string, size int) (int, error) {
				if op == "truncate" || op == "write" && strings.HasSuffix(name, ".segment") {
					return size, syscall.EIO // of a write, all is done nevertheless
				}
				return size, nil
			})
			rewrite(s, "y", false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(40) {
				synctest.Test(t, func(t *testing.T) {
					m := newMachine()
					s := open(t, m, disk.Options{})
					s.Put(disk.Record{Key: "a", Variant: "y", Body: []byte("old")})
					synctest.Wait()
					hide(m, s)
					synctest.Wait()
					m.setFault(nil)
					syncAll(t, s, purge(s, "a", false))
					m.kill()
					lost := seed > 0 // the machine loses power, and what is left of the files differs
					next := m.boot(rand.New(rand.NewPCG(seed, 28)), lost)
					_ = s.Close(t.Context())
					s = open(t, next, disk.Options{})
					defer closeStore(t, s)
					want(t, s, map[string]string{"a": "none"})
				})
			}
		})
	}
}

// A segment whose removal was not flushed does not stop later ones.
func TestH28_ARemovalThatIsNotFlushedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		s := open(t, m, disk.Options{Objects: 6})
		defer closeStore(t, s)
		fill := func() {
			for i := range 20 {
				put(s, fmt.Sprint("key", i), "body")
				synctest.Wait()
			}
		}
		m.setFault(failing("flush"))
		fill()
		m.setFault(nil)
		time.Sleep(disk.DefaultPause + time.Second)
		before := s.Stats().Written
		fill()
		if n := s.Stats().Written - before; n != 20 {
			t.Errorf("%d records were written after the fault; want 20", n)
		}
	})
}

// failing is a fault: these operations fail, and do nothing.
func failing(ops ...string) func(op, _ string, size int) (int, error) {
	return func(op, _ string, size int) (int, error) {
		if slices.Contains(ops, op) {
			return 0, syscall.EIO
		}
		return size, nil
	}
}
