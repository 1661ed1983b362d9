//go:build unix

package keep

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-go/weir/jobs/bounded"
)

var trees = []string{"store", "ledger", "none"}

func how(path string) How {
	switch {
	case strings.HasPrefix(path, "ledger"):
		return Grow
	case filepath.Base(path) == "2.blk" || filepath.Ext(path) != ".blk":
		return Copy
	}
	return Link
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

// aStore returns a folder with two of the three trees.
func aStore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"a", "b/c"} {
		write(t, dir, "store/"+name+"/1.blk", "the first block of "+name)
		write(t, dir, "store/"+name+"/2.blk", "the last block of "+name)
		write(t, dir, "store/"+name+"/meta", "what it is")
	}
	write(t, dir, "ledger/a", "what is there")
	write(t, dir, "other", "not copied")
	if err := os.Chmod(filepath.Join(dir, "store", "b"), 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// ruin does what a server might do to the store.
func ruin(t *testing.T, dir string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Remove(filepath.Join(dir, "store/a/1.blk")))
	must(os.RemoveAll(filepath.Join(dir, "store/b")))
	write(t, dir, "store/a/2.blk", "something else entirely")
	write(t, dir, "store/a/3.blk", "a new block")
	must(os.Rename(filepath.Join(dir, "store/a/meta"), filepath.Join(dir, "store/a/beta")))
	f, err := os.OpenFile(filepath.Join(dir, "ledger/a"), os.O_WRONLY|os.O_APPEND, 0)
	must(err)
	_, err = f.WriteString(", and more")
	must(err)
	must(f.Close())
	write(t, dir, "none/of/it", "was there")
}

// seen lists what is in dir, but for the copy: names, modes and contents.
func seen(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if rel == Folder {
			return filepath.SkipDir
		}
		fmt.Fprintln(&all, rel, info.Mode())
		if info.IsDir() {
			return nil
		}
		text, err := bounded.File(path, 1<<20)
		fmt.Fprintf(&all, "%q\n", text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestJ1_TheCopyIsPutBackByteForByte(t *testing.T) {
	dir := aStore(t)
	before := seen(t, dir)
	if err := Take(dir, trees, how); err != nil {
		t.Fatal(err)
	}
	if got := seen(t, dir); got != before {
		t.Fatalf("Take changed the folder to\n%s\nwant\n%s", got, before)
	}
	ruin(t, dir)
	if left, crashed := Left(dir); !left || crashed != 0 {
		t.Errorf("Left = %t, %d; want true, 0", left, crashed)
	}
	if err := Back(dir, true); err != nil {
		t.Fatal(err)
	}
	if got := seen(t, dir); got != before {
		t.Errorf("after Back the folder has\n%s\nwant\n%s", got, before)
	}
	if left, crashed := Left(dir); left || crashed != 1 {
		t.Errorf("Left = %t, %d; want false, 1", left, crashed)
	}
	if err := Take(dir, trees, how); err != nil {
		t.Fatal(err)
	}
	if err := Drop(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, Folder)); !os.IsNotExist(err) {
		t.Errorf("after Drop, Lstat of the copy = %v; want none", err)
	}
}

// keepKill, in the environment of the test's own program, makes it a process that takes a
// copy, ruins the folder, and puts the copy back or drops it. It is killed before the step
// with this number.
const keepKill = "WEIR_KEEP_KILL"

func TestMain(m *testing.M) {
	steps, err := strconv.Atoi(os.Getenv(keepKill))
	if err != nil {
		os.Exit(m.Run())
	}
	dir, what := os.Args[1], os.Args[2]
	step = func() {
		if steps--; steps < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	do := map[string]func() error{
		"take": func() error { return Take(dir, trees, how) },
		"back": func() error { return Back(dir, true) },
		"drop": func() error { return Drop(dir) },
	}[what]
	if err := do(); err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	os.Exit(0)
}

// killed runs Take, Back or Drop in a process that is killed before a step. It reports
// false if there are fewer steps.
func killed(t *testing.T, dir, what string, steps int) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir, what)
	cmd.Env = append(os.Environ(), keepKill+"="+strconv.Itoa(steps))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	if cmd.ProcessState.ExitCode() == 3 {
		t.Fatalf("%s: %s", what, out)
	}
	return true
}

// kill -9 at each step of the copy: no step leaves a folder of which the copy, or the
// folder itself, does not have every byte.
func TestJ1_KilledAtAnyStepOfTheCopyNothingIsLost(t *testing.T) {
	take := func(t *testing.T, dir string) {
		t.Helper()
		if err := Take(dir, trees, how); err != nil {
			t.Fatal(err)
		}
	}
	for what, prepare := range map[string]func(*testing.T, string){
		"take": func(*testing.T, string) {},
		"back": func(t *testing.T, dir string) { take(t, dir); ruin(t, dir) },
		"drop": take,
	} {
		t.Run(what, func(t *testing.T) {
			steps := 0
			for ; ; steps++ {
				dir := aStore(t)
				before := seen(t, dir)
				prepare(t, dir)
				died := killed(t, dir, what, steps)
				if left, _ := Left(dir); left {
					if what != "back" {
						ruin(t, dir)
					}
					if err := Back(dir, true); err != nil {
						t.Fatalf("%s was killed at step %d: Back = %v", what, steps, err)
					}
				}
				if got := seen(t, dir); got != before {
					t.Errorf("%s was killed at step %d: the folder has\n%s\nwant\n%s", what, steps, got, before)
				}
				take(t, dir) // over what is left
				if err := Drop(dir); err != nil {
					t.Fatal(err)
				}
				if !died {
					break
				}
			}
			t.Logf("%d steps", steps)
			if steps < 5 {
				t.Errorf("killed at %d steps; want several", steps)
			}
		})
	}
}
