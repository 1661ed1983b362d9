//go:build unix

package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/jobs/embedded"
)

// A vandal changes entries of a store at random. It leaves the mark beside the folder,
// without which a folder that was emptied looks like a new one.
type vandal struct {
	*rand.Rand
	t    *testing.T
	w    *ward
	done []string
}

// entry returns a random entry of the store.
func (v *vandal) entry(want func(fs.DirEntry) bool) string {
	var all []string
	err := filepath.WalkDir(v.w.folder(), func(path string, d fs.DirEntry, err error) error {
		if err == nil && want(d) {
			all = append(all, path)
		}
		return nil
	})
	if err != nil || len(all) == 0 {
		return ""
	}
	return all[v.IntN(len(all))]
}

func anything(fs.DirEntry) bool { return true }

func isDir(d fs.DirEntry) bool { return d.IsDir() }

func isFile(d fs.DirEntry) bool { return d.Type().IsRegular() }

// name returns a name for a new entry: one that a server might understand, that of a
// sibling with a change, or one that means nothing.
func (v *vandal) name(dir string) string {
	names := []string{"__new_msgs__", "__msgs__", "meta.key", "meta.inf", "1.key", "01.blk", "+2.blk", "0.blk", "3.blk", "99.blk", "2.blk.tmp",
		"3.new", "index.db", "thw.db", "batches", "msgs", "obs", "streams", "$G", "$SYS", "_test_1", "o.dat", ".hidden", "lost+found", "weir.start"}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		sibling := entries[v.IntN(len(entries))].Name()
		names = append(names, sibling+".bak", sibling+"~", "0"+sibling, "."+sibling, sibling)
	}
	if v.IntN(4) == 0 {
		return fmt.Sprintf("n%x", v.Uint64())
	}
	return names[v.IntN(len(names))]
}

// contents returns what a new file has: nothing, no sense, or what another file has.
func (v *vandal) contents() []byte {
	switch v.IntN(3) {
	case 0:
		return nil
	case 1:
		return []byte("this is not what should be here")
	}
	text, _ := os.ReadFile(v.entry(isFile)) // nothing, if there is no file
	return text
}

// act does one thing, if the folder is still there.
func (v *vandal) act() {
	if _, err := os.Stat(v.w.folder()); err != nil {
		return
	}
	what, path, err := "", "", error(nil)
	switch v.IntN(8) {
	case 0, 1:
		what, path = "create", v.entry(isDir)
		path = filepath.Join(path, v.name(path))
		if v.IntN(3) == 0 {
			err = os.Mkdir(path, 0o700)
			if err == nil && v.IntN(2) == 0 {
				err = os.WriteFile(filepath.Join(path, v.name(path)), v.contents(), 0o600)
			}
		} else {
			err = os.WriteFile(path, v.contents(), 0o600)
		}
	case 2:
		what, path = "remove", v.entry(anything)
		err = os.RemoveAll(path)
	case 3:
		what, path = "rename", v.entry(anything)
		to := v.entry(isDir)
		if v.IntN(3) > 0 {
			to = filepath.Dir(path)
		}
		err = os.Rename(path, filepath.Join(to, v.name(to)))
	case 4:
		what, path = "truncate", v.entry(isFile)
		if info, bad := os.Stat(path); bad == nil {
			err = os.Truncate(path, v.Int64N(info.Size()+1))
		}
	case 5:
		mode := []fs.FileMode{0, 0o400, 0o444, 0o500, 0o555, 0o200, 0o777}[v.IntN(7)]
		what, path = fmt.Sprintf("chmod %o", mode), v.entry(anything)
		err = os.Chmod(path, mode)
	case 6:
		user := []int{0, noRights, 12345}[v.IntN(3)]
		what, path = fmt.Sprintf("chown %d", user), v.entry(anything)
		err = os.Lchown(path, user, user)
	case 7:
		flag := []string{"+i", "+a"}[v.IntN(2)]
		what, path = "chattr "+flag, v.entry(anything)
		err = exec.Command("chattr", flag, path).Run() // another test reports that there is no chattr
	}
	rel, _ := filepath.Rel(v.w.folder(), path)
	v.done = append(v.done, fmt.Sprintf("%s %s (%v)", what, rel, err))
}

// fill writes files until no more can be written.
func fill(t *testing.T, dir string, size int) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), make([]byte, size), 0o600)
		if errors.Is(err, syscall.ENOSPC) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// exhaust moves the store to a volume that has little room for bytes or for entries, if there
// can be one. release gives the volume room again.
func (v *vandal) exhaust() (what string, release func()) {
	options, what := "size=1g,nr_inodes=2000", "inodes"
	if v.IntN(2) == 0 {
		options, what = "size=24m", "bytes"
	}
	at := everyonesFolder(v.t)
	if err := mountVolume(v.t, at, options); err != nil {
		return "", func() {} // TestJ17_AVolumeThatJobsHaveFilledDrains reports that there is none
	}
	dir := filepath.Join(at, "store")
	copyTree(v.t, v.w.dir, dir)
	err := filepath.WalkDir(v.w.dir, func(path string, d fs.DirEntry, err error) error {
		info, bad := d.Info()
		if err != nil || bad != nil {
			return errors.Join(err, bad)
		}
		rel, _ := filepath.Rel(v.w.dir, path)
		st := info.Sys().(*syscall.Stat_t)
		return os.Lchown(filepath.Join(dir, rel), int(st.Uid), int(st.Gid))
	})
	if err != nil {
		v.t.Fatal(err)
	}
	remove(v.t, v.w.dir)
	v.w.dir = dir
	full, left := filepath.Join(at, "full"), v.IntN(200)
	size := 0
	if what == "bytes" {
		size = 8 << 10
	}
	fill(v.t, full, size)
	for i := range left {
		_ = os.Remove(filepath.Join(full, fmt.Sprint(i))) // there may be fewer
	}
	return fmt.Sprintf(" and %d times %d bytes or entries free", left, size), func() { remove(v.t, full) }
}

// forgive makes it possible to read and to remove the store.
func (v *vandal) forgive() {
	_ = exec.Command("chattr", "-R", "-f", "-i", "-a", v.w.dir).Run()
	_ = filepath.WalkDir(v.w.dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) // another user than root could not enter it
		}
		return nil
	})
}

// setBack reports whether both the messages and the ledger have lost their ends. Together they then
// are what they were at an earlier time, and nothing shows that unless the mark is later.
func (v *vandal) setBack() bool {
	ledger, messages := false, false
	for _, what := range v.done {
		if path, ok := strings.CutPrefix(what, "truncate "); ok {
			ledger = ledger || strings.HasPrefix(path, "weir.ledger/")
			messages = messages || strings.Contains(path, ".blk ")
		}
	}
	return ledger && messages
}

// Whatever was done to the entries of a store, a start ends with every job, or with
// jobs refused and the folder as it was, byte for byte. Exempt are the lock, the copy that
// a start makes, and times.
func TestJ1_RandomChangesOfAStoreLoseNoJob(t *testing.T) {
	newWard(t) // creates the store once, before the lanes need it
	program := everyonesProgram(t)
	var refused, whole atomic.Int32
	t.Cleanup(func() {
		t.Logf("%d refused, %d whole", refused.Load(), whole.Load())
		if !histories.Alone() && (refused.Load() == 0 || whole.Load() == 0) {
			t.Errorf("%d refused, %d whole; want some of each", refused.Load(), whole.Load())
		}
	})
	histories.InLanes(t, 100, 2000, func(t *testing.T, seed uint64) {
		v := &vandal{Rand: rand.New(rand.NewPCG(seed, 41)), t: t}
		user, files := os.Geteuid(), 0
		if user == 0 && v.IntN(3) == 0 {
			user = noRights
		}
		if v.IntN(5) == 0 {
			files = 10 + v.IntN(150)
		}
		v.w = everyonesWard(t, user)
		lack, release := "", func() {}
		if v.IntN(6) == 0 {
			lack, release = v.exhaust()
		}
		defer func() {
			v.forgive()
			remove(t, v.w.dir)
		}()
		for range 1 + v.IntN(2) {
			v.act()
		}
		before := fullSum(t, v.w.dir)
		got := triedWith(t, program, v.w.folder(), user, files)
		what := fmt.Sprintf("seed %d as %d with %d descriptors%s: %s: %s", seed, user, files, lack, strings.Join(v.done, ", "), got)
		if !strings.HasPrefix(got, "started") {
			if after := fullSum(t, v.w.dir); after != before {
				t.Errorf("%s: the folder has\n%s\nwant\n%s", what, after, before)
			}
			refused.Add(1)
			return
		}
		v.forgive()
		release()
		s, err := embedded.Start(embedded.Options{Dir: v.w.folder(), MinFree: 1 << 20}) // the volume is small
		if err != nil {
			t.Errorf("%s, and then %v; want that it starts again", what, err)
			return
		}
		whole.Add(1)
		if !v.setBack() {
			v.w.wantAll(t, what, s, v.w.ids)
		}
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("%s: Close = %v", what, err)
		}
	})
}
