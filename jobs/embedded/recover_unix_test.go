//go:build unix

package embedded_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/jobs/embedded"
)

// A server that loses jobs while it starts: the files are put back byte for byte, and
// jobs are refused.
func TestJ1_WhatAStartLosesIsPutBack(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, stream string){
		"a block is removed":       func(t *testing.T, s string) { remove(t, filepath.Join(s, "msgs", "1.blk")) },
		"the blocks are removed":   func(t *testing.T, s string) { remove(t, filepath.Join(s, "msgs")) },
		"the stream is removed":    remove,
		"a block is cut":           func(t *testing.T, s string) { cutLast(t, s) },
		"a block is overwritten":   func(t *testing.T, s string) { garbage(t, lastOf(t, s)) },
		"its description is wrong": func(t *testing.T, s string) { garbage(t, filepath.Join(s, "meta.inf")) },
		"another folder of blocks": func(t *testing.T, s string) {
			err := os.MkdirAll(filepath.Join(s, "__new_msgs__"), 0o700)
			if err == nil {
				err = os.WriteFile(filepath.Join(s, "__new_msgs__", "1.blk"), nil, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"blocks of another name": func(t *testing.T, s string) {
			if err := os.Rename(lastOf(t, s), filepath.Join(s, "msgs", "0.blk")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWard(t)
			before := fullSum(t, w.dir)
			restore := embedded.SetPrepared(func(dir string) { lose(t, w.files(t, streamFiles)[0]) })
			s, err := embedded.Start(embedded.Options{Dir: w.folder()})
			restore()
			if err == nil {
				_ = s.Close(t.Context())
				t.Fatal("Start = nil; want a RecoveryError")
			}
			if _, ok := errors.AsType[*embedded.RecoveryError](err); !ok || !strings.Contains(err.Error(), "put back") {
				t.Errorf("Start = %v; want a RecoveryError that says that the files were put back", err)
			}
			if after := fullSum(t, w.dir); after != before {
				t.Errorf("the folder has\n%s\nwant\n%s", after, before)
			}
			if got := w.open(t, name); got.err != nil {
				t.Errorf("the next Start = %v; want nil", got.err)
			}
			if _, err := os.Lstat(filepath.Join(w.folder(), "weir.start")); !os.IsNotExist(err) {
				t.Errorf("the copy of the start: %v; want none", err)
			}
		})
	}
}

// lastOf returns the last block of a stream.
func lastOf(t *testing.T, stream string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(stream, "msgs", "*.blk"))
	if err != nil || len(all) == 0 {
		t.Fatalf("Glob = %v, %v; want blocks", all, err)
	}
	return all[len(all)-1]
}

func cutLast(t *testing.T, stream string) { cut(0.5)(t, lastOf(t, stream)) }

// kill -9 while the embedded server starts: the next start puts everything back, and refuses
// jobs once. A folder on which starts are killed again and again is left to an operator.
func TestJ1_AStartThatWasKilledIsPutBack(t *testing.T) {
	w := newWard(t)
	before := fullSum(t, w.dir)
	kill := func() {
		t.Helper()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), tryDir+"="+w.folder(), tryKill+"=1")
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Fatalf("the process printed %q; want that it is killed", out)
		}
	}
	kill()
	got := tried(t, w.folder(), os.Geteuid(), 0)
	if !strings.HasPrefix(got, "store ") || !strings.Contains(got, "put back") {
		t.Errorf("Start after a killed one = %s; want a StoreError that says that the files were put back", got)
	}
	if after := fullSum(t, w.dir); after != before {
		t.Errorf("the folder has\n%s\nwant\n%s", after, before)
	}
	kill()
	if got := tried(t, w.folder(), os.Geteuid(), 0); !strings.HasPrefix(got, "recovery ") {
		t.Errorf("Start after two killed ones = %s; want a RecoveryError", got)
	}
	if after := fullSum(t, w.dir); after != before {
		t.Errorf("the folder has\n%s\nwant\n%s", after, before)
	}
	kill()
	if _, err := embedded.Repair(w.folder(), embedded.RepairOptions{DryRun: true}); err == nil {
		t.Error("a dry repair of a start that was killed = nil; want an error, because it changes nothing")
	}
	if r, err := embedded.Repair(w.folder(), embedded.RepairOptions{}); err != nil || r.Damaged() {
		t.Errorf("Repair of a start that was killed = %+v, %v; want that nothing is damaged", r, err)
	}
	if after := fullSum(t, w.dir); after != before {
		t.Errorf("the folder has\n%s\nwant\n%s", after, before)
	}
	if got := w.open(t, "afterwards"); got.err != nil {
		t.Errorf("Start afterwards = %v; want nil", got.err)
	}
}

// Without hard links there is no copy, and the log of the start names that.
func TestJ1_AFileSystemWithoutLinksIsNamed(t *testing.T) {
	w := newWard(t)
	elsewhere := filepath.Join(t.TempDir(), "jetstream")
	if err := os.Rename(filepath.Join(w.folder(), "jetstream"), elsewhere); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(w.folder(), "jetstream")); err != nil {
		t.Fatal(err)
	}
	var logs bytes.Buffer
	s := start(t, embedded.Options{Dir: w.folder(), Log: slog.New(slog.NewTextHandler(&logs, nil))})
	if !strings.Contains(logs.String(), "hard links") {
		t.Errorf("the log of the start:\n%s\nwant that there are no hard links", logs.String())
	}
	w.wantAll(t, "elsewhere", s, w.ids)
}
