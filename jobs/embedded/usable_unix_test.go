//go:build unix

package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-go/weir/jobs/embedded"
)

// With tryDir in its environment, the test binary starts a server on that folder, prints
// the kind of the error and its text, and ends. tryFiles is the number of files that it may
// have open.
const (
	tryDir   = "WEIR_EMBEDDED_TRY"
	tryFiles = "WEIR_EMBEDDED_FILES"
	tryKill  = "WEIR_EMBEDDED_KILL" // not empty: the process is killed once the files are prepared
)

func try(dir string) int {
	if n, err := strconv.ParseUint(os.Getenv(tryFiles), 10, 32); err == nil {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			panic(err)
		}
	}
	if os.Getenv(tryKill) != "" {
		embedded.SetPrepared(func(string) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		})
	}
	s, err := embedded.Start(embedded.Options{Dir: dir})
	if err == nil {
		err = s.Close(context.Background())
		fmt.Println("started", err)
		return 0
	}
	kind := "another error"
	if _, ok := errors.AsType[*embedded.DamageError](err); ok {
		kind = "damage"
	} else if _, ok := errors.AsType[*embedded.StoreError](err); ok {
		kind = "store"
	} else if _, ok := errors.AsType[*embedded.RecoveryError](err); ok {
		kind = "recovery"
	}
	fmt.Println(kind, err)
	return 0
}

// noRights is a user without any rights.
const noRights = 65534

// tried runs try in a process of the given user, and returns what it prints.
func tried(t *testing.T, dir string, user, files int) string {
	t.Helper()
	program := os.Args[0]
	if user != os.Geteuid() {
		program = everyonesProgram(t)
	}
	return triedWith(t, program, dir, user, files)
}

// triedWith is tried with a copy of this program.
func triedWith(t *testing.T, program, dir string, user, files int) string {
	t.Helper()
	cmd := exec.Command(program)
	if user != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
		cmd.Dir = "/"
	}
	cmd.Env = append(os.Environ(), tryDir+"="+dir, "HOME=/")
	if files > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", tryFiles, files))
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the process ended with %v, and printed:\n%s", err, out)
	}
	return string(bytes.TrimSpace(out))
}

// everyonesFolder is a folder that every user can enter; the system's folder for temporary
// files must be one.
func everyonesFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-everyone-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// everyonesProgram returns a copy of this program that every user can start.
func everyonesProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(everyonesFolder(t), "program")
	text, err := os.ReadFile(os.Args[0])
	if err == nil {
		syscall.ForkLock.RLock() // a process that is started now would have the file open for writing, and it could not be started
		err = os.WriteFile(path, text, 0o600)
		syscall.ForkLock.RUnlock()
	}
	if err == nil {
		err = os.Chmod(path, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// everyonesWard is newWard, in a folder that belongs to a user.
func everyonesWard(t *testing.T, user int) *ward {
	t.Helper()
	w := newWard(t)
	if user == os.Geteuid() {
		return w
	}
	dir := everyonesFolder(t)
	copyTree(t, w.dir, dir)
	w.dir = dir
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, user, user))
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// fullSum is treeSum with owners and permissions, and without the copy of a start, which
// may be left, and the lock.
func fullSum(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.Walk(dir, func(path string, info fs.FileInfo, err error) error {
		switch {
		case err != nil:
			return err
		case info.Name() == "weir.lock":
			return nil
		case info.Name() == "weir.start":
			return filepath.SkipDir
		}
		rel, _ := filepath.Rel(dir, path)
		st, _ := info.Sys().(*syscall.Stat_t)
		sum := ""
		if info.Mode().IsRegular() {
			sum = fileSum(t, path)
		}
		fmt.Fprintln(&all, rel, info.Mode(), st.Uid, sum)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// A hindrance keeps a server from using a store whose files are complete.
type hindrance struct {
	name string
	at   string // pattern
	do   func(t *testing.T, path string)
	undo func(t *testing.T, path string) // nil: nothing is undone

	user  bool   // it hinders only users without rights
	files int    // how many files the process may have open
	says  string // in the error
}

func chmod(mode fs.FileMode) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
}

func chown(user int) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		if err := os.Lchown(path, user, user); err != nil {
			t.Fatal(err)
		}
	}
}

func chattr(flag string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		if out, err := exec.Command("chattr", flag, path).CombinedOutput(); err != nil {
			t.Skipf("WITHOUT chattr %s: %v, %s", flag, err, out)
		}
	}
}

func hindrances() (all []hindrance) {
	add := func(name, at string, text string, dir bool) {
		all = append(all, hindrance{name: name, at: at, says: "is not a file of the jobs", do: func(t *testing.T, path string) {
			var err error
			if dir {
				err = os.MkdirAll(filepath.Join(path, text), 0o700)
			} else {
				err = os.WriteFile(filepath.Join(path, text), []byte("foreign"), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, undo: func(t *testing.T, path string) { remove(t, filepath.Join(path, text)) }})
	}
	add("a key", streamFiles, "meta.key", false)
	add("a folder for new messages", streamFiles, "__new_msgs__", true)
	add("a folder of purged messages", streamFiles, "__msgs__", true)
	add("a block with another spelling", streamFiles+"/msgs", "01.blk", false)
	add("a block with a sign", streamFiles+"/msgs", "+1.blk", false)
	add("the key of a block", streamFiles+"/msgs", "1.key", false)
	add("a folder among the blocks", streamFiles+"/msgs", "99.blk", true)
	add("another account", "jetstream", "A", true)
	folders := []string{streamFiles, streamFiles + "/msgs", streamFiles + "/obs", streamFiles + "/obs/safe", "weir.ledger", "jetstream", "../jobs"}
	for _, at := range append([]string{blockFiles, streamFiles + "/meta.inf", "weir.ledger/WEIR_JOBS_1_default"}, folders...) {
		for _, flag := range []string{"i", "a"} {
			all = append(all, hindrance{name: "chattr +" + flag, at: at, do: chattr("+" + flag), undo: chattr("-" + flag)})
		}
		all = append(all, hindrance{name: "another owner", at: at, user: true, do: chown(0), undo: chown(noRights), says: "denied"})
	}
	for _, at := range folders {
		all = append(all, hindrance{name: "mode 555", at: at, user: true, do: chmod(0o555), undo: chmod(0o700), says: "denied"})
	}
	all = append(all, hindrance{name: "mode 444", at: blockFiles, user: true, do: chmod(0o444), undo: chmod(0o600), says: "denied"})
	for _, n := range []int{16, 24, 32, 48} {
		all = append(all, hindrance{name: fmt.Sprintf("%d descriptors", n), at: "../jobs", files: n, do: func(*testing.T, string) {}, says: "too many open files"})
	}
	return all
}

// A store whose files cannot all be used is left alone, and says what hinders it; once
// nothing does, it has all jobs.
func TestJ1_AStoreThatCannotBeUsedIsLeftAlone(t *testing.T) {
	newWard(t) // creates the store once, before the parallel subtests need it
	for _, h := range hindrances() {
		for _, user := range []int{os.Geteuid(), noRights} {
			switch {
			case user != os.Geteuid() && (os.Geteuid() != 0 || !h.user):
				continue // it cannot become another user, or this is no matter of users
			case user == 0 && h.user:
				continue // root may do everything
			}
			t.Run(fmt.Sprintf("%s %s as %d", h.name, filepath.Base(h.at), user), func(t *testing.T) {
				t.Parallel()
				w := everyonesWard(t, user)
				path := w.files(t, h.at)[0]
				h.do(t, path)
				undo := func() {
					if h.undo != nil {
						h.undo(t, path)
					}
				}
				undone := false
				t.Cleanup(func() {
					if !undone {
						undo() // or the folder could not be removed
					}
				})
				before := fullSum(t, w.dir)
				got := tried(t, w.folder(), user, h.files)
				if !strings.HasPrefix(got, "store ") || !strings.Contains(got, h.says) {
					t.Errorf("Start = %s; want a StoreError that contains %q", got, h.says)
				}
				if after := fullSum(t, w.dir); after != before {
					t.Errorf("Start changed the folder to\n%s\nfrom\n%s", after, before)
				}
				undo()
				undone = true
				if got := w.open(t, "afterwards"); got.err != nil {
					t.Errorf("Start afterwards = %v; want nil", got.err)
				}
			})
		}
	}
}
