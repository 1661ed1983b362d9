package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// queuedJobs makes a folder with some jobs that nobody has started, and returns it
// after its server has stopped.
func queuedJobs(t *testing.T, n int) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "jobs") // what belongs to it is beside it
	server, err := embedded.Start(embedded.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close(context.Background())
	nc, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	store, err := jobs.Open(t.Context(), nc, jobs.StoreOptions{Durability: jobs.DurabilityDisk})
	if err != nil {
		t.Fatal(err)
	}
	q, err := jobs.NewQueue[string, string](t.Context(), store, "reports", jobs.QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := q.Submit(t.Context(), fmt.Sprint("input ", i), jobs.SubmitOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// flipBit flips a bit in the middle of the largest file of blocks.
func flipBit(t *testing.T, dir string) {
	t.Helper()
	var largest string
	var size int64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".blk" {
			return err
		}
		if info, err := d.Info(); err == nil && info.Size() > size {
			largest, size = path, info.Size()
		}
		return nil
	})
	if err != nil || size == 0 {
		t.Fatalf("no file of blocks in %s (%v)", dir, err)
	}
	data, err := os.ReadFile(largest)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(largest, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// contents are the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// J1: a damaged folder is reported, job by job, and repaired by one command.
func TestJ1_RepairReportsAndRecovers(t *testing.T) {
	const n = 30
	dir := queuedJobs(t, n)
	flipBit(t, dir)
	before := contents(t, dir)

	repair := func(code int, args ...string) *session {
		t.Helper()
		s := newSession()
		if got := s.run(append([]string{"jobs", "repair", "--dir", dir}, args...)...); got != code {
			t.Errorf("weir jobs repair %v: exit code %d; want %d\n%s%s", args, got, code, s.stdout.String(), s.stderr.String())
		}
		return s
	}
	report := func(code int, args ...string) (r embedded.Report) {
		t.Helper()
		s := repair(code, append(args, "--json")...)
		if err := json.Unmarshal([]byte(s.stdout.String()), &r); err != nil || len(r.Streams) != 1 {
			t.Fatalf("weir jobs repair %v --json: %v in %s; want one namespace", args, err, s.stdout.String())
		}
		return r
	}

	dry := report(1, "--dry-run")
	damaged := dry.Streams[0]
	if len(damaged.Missing) == 0 || damaged.Jobs+len(damaged.Missing) != n || dry.Changed || !dry.DryRun {
		t.Errorf("the report has %d jobs and %d missing, changed %v; want %d together, one or more missing, and nothing changed",
			damaged.Jobs, len(damaged.Missing), dry.Changed, n)
	}
	s := repair(1, "--dry-run")
	table := s.stdout.String()
	row := strings.Fields(strings.Split(table, "\n")[1])
	if want := []string{damaged.Namespace, fmt.Sprint(damaged.Jobs), fmt.Sprint(len(damaged.Missing))}; len(row) != 6 || fmt.Sprint(row[:3]) != fmt.Sprint(want) {
		t.Errorf("the table says %q; want a row of 6 that begins with %q", row, want)
	}
	for _, m := range damaged.Missing {
		if want := m.What + " of " + m.ID + " in queue reports is missing, written "; !strings.Contains(table, want) {
			t.Errorf("the report is\n%s\nwant %q in it", table, want)
		}
	}
	for _, want := range []string{damaged.Damage[0].File, "Nothing has been changed."} {
		if !strings.Contains(table, want) {
			t.Errorf("the report is\n%s\nwant %q in it", table, want)
		}
	}
	if want := "run without --dry-run to repair them"; !strings.Contains(s.stderr.String(), want) {
		t.Errorf("standard error has %q; want %q", s.stderr.String(), want)
	}
	if after := contents(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Error("the dry run has changed the folder")
	}

	if got := repair(0).stdout.String(); !strings.Contains(got, "Repaired. The data that was cut is in "+dir) {
		t.Errorf("weir jobs repair wrote\n%s\nwant where the copy is", got)
	}
	healed := report(0, "--dry-run")
	if healed.Damaged() || healed.Streams[0].Jobs != damaged.Jobs {
		t.Errorf("after the repair: %+v; want %d jobs and no damage", healed.Streams[0], damaged.Jobs)
	}
	if got := repair(0).stdout.String(); !strings.Contains(got, "Nothing is damaged, and nothing has been changed.") {
		t.Errorf("a second repair wrote\n%s\nwant that nothing was to be done", got)
	}
}

// A mistyped folder is not reported as healthy, and is left as it is. A dry run creates
// nothing in the right one either.
func TestH4_RepairCreatesNothingAndKnowsItsFolder(t *testing.T) {
	run := func(args ...string) (*session, int) {
		s := newSession()
		return s, s.run(append([]string{"jobs", "repair", "--dir"}, args...)...)
	}
	stranger := t.TempDir()
	if err := os.WriteFile(filepath.Join(stranger, "photo.jpg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := contents(t, stranger)
	for _, more := range [][]string{nil, {"--dry-run"}, {"--restored"}, {"--json"}} {
		s, code := run(append([]string{stranger}, more...)...)
		if code != command.ExitFailed || !strings.Contains(s.stderr.String(), "contains no jobs of weir") || s.stdout.String() != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q; want 1 and that the folder contains no jobs", more, code, s.stdout.String(), s.stderr.String())
		}
	}
	if after := contents(t, stranger); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the folder contains %v; want it unchanged", after)
	}

	dir := queuedJobs(t, 1)
	if err := os.Remove(filepath.Join(dir, "weir.lock")); err != nil {
		t.Fatal(err)
	}
	before = contents(t, dir)
	if s, code := run(dir, "--dry-run"); code != command.ExitOK {
		t.Errorf("a dry run: exit code %d, stderr %q; want 0", code, s.stderr.String())
	}
	if after := contents(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Error("a dry run has changed the folder")
	}
}

func TestJ1_RepairSaysWhatItNeeds(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "which folder?"},
		{[]string{"--dir", dir, "--config", "x"}, 2, "not both"},
		{[]string{"--dir", filepath.Join(dir, "none")}, 1, "no such file"},
	} {
		s := newSession()
		if got := s.run(append([]string{"jobs", "repair"}, tt.args...)...); got != tt.code || !strings.Contains(s.stderr.String(), tt.want) {
			t.Errorf("weir jobs repair %v: exit code %d, %q; want %d, %q", tt.args, got, s.stderr.String(), tt.code, tt.want)
		}
	}
}
