package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var when = time.Date(2026, 11, 24, 10, 20, 30, 0, time.UTC)

func TestBadCommandLinesAreRefused(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // in the error
	}{
		{[]string{"--dry-run"}, "want one version"},
		{[]string{"--dry-run", "0.1.0"}, `version "0.1.0": want vMAJOR.MINOR.PATCH`},
		{[]string{"--dry-run", "v0.1"}, `version "v0.1": want vMAJOR.MINOR.PATCH`},
		{[]string{"--dry-run", "v0.1.0+meta"}, "want vMAJOR.MINOR.PATCH"},
		{[]string{"--dry-run", "v2.0.0"}, "the module paths have no /v2"},
		{[]string{"--dry-run", "v0.1.0", "--json"}, "after the flags"},
		{[]string{"v0.1.0"}, "add --dry-run"},
		{[]string{"--dry-run", "--platforms", "plan9/386", "v0.1.0"}, `platform "plan9/386"`},
		{[]string{"--dry-run", "--out", ".", "v0.1.0"}, "exists already"},
		{[]string{"--publish", "v0.1.0"}, "-publish"},
	} {
		var stdout, stderr bytes.Buffer
		if code := Main(t.Context(), c.args, &stdout, &stderr); code != 2 {
			t.Errorf("Main(%q) = %d; want 2", c.args, code)
		}
		if !strings.HasPrefix(stderr.String(), "release: ") || !strings.Contains(stderr.String(), c.want) || stdout.Len() > 0 {
			t.Errorf("Main(%q) writes %q and %q; want nothing and an error with %q", c.args, &stdout, &stderr, c.want)
		}
	}
}

func TestPlatformsAreAllUnlessNamedOrShort(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []platform
	}{
		{nil, platforms},
		{[]string{"--platforms", "windows/amd64,linux/arm64"}, []platform{{"windows", "amd64"}, {"linux", "arm64"}}},
		{[]string{"--short", "--platforms", "darwin/arm64"}, []platform{{"darwin", "arm64"}}},
	} {
		o, err := parse(append(append([]string{"--dry-run"}, c.args...), "v1.2.3-rc.1"), io.Discard)
		if err != nil || !slices.Equal(o.platforms, c.want) || o.version != "v1.2.3-rc.1" {
			t.Errorf("parse(%q) = %v of %s, %v; want %v", c.args, o.platforms, o.version, err, c.want)
		}
	}
}

func TestNotesAreWhatIsUnreleased(t *testing.T) {
	const old = "\n## [0.1.0] - 2026-01-02\n\n### Added\n\n- Old.\n\n[0.1.0]: https://example.com\n"
	text, notes, err := cutNotes("# Changelog\n\n## [Unreleased]\n\n### Added\n\n- New.\n"+old, "v0.2.0", when)
	if err != nil {
		t.Fatal(err)
	}
	if want := "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-24\n\n### Added\n\n- New.\n" + old; text != want {
		t.Errorf("the changelog is %q; want %q", text, want)
	}
	if want := "# weir v0.2.0\n\n### Added\n\n- New.\n"; notes != want {
		t.Errorf("the notes are %q; want %q", notes, want)
	}
	again, notes, err := cutNotes(text, "v0.1.0", when)
	if want := "# weir v0.1.0\n\n### Added\n\n- Old.\n"; err != nil || notes != want || again != text {
		t.Errorf("the notes of a version that the changelog has are %q, %v; want %q and the changelog unchanged", notes, err, want)
	}
	if _, notes, err := cutNotes("\n## [Unreleased]\n"+old, "v0.2.0", when); err != nil || notes != "" {
		t.Errorf("the notes of an empty part are %q, %v; want none", notes, err)
	}
	if _, _, err := cutNotes("# Changelog\n"+old, "v0.2.0", when); err == nil {
		t.Error("cutNotes returned no error for a changelog without an [Unreleased] part")
	}
}

func TestArchivesDependOnTheirFilesAlone(t *testing.T) {
	items := []item{{"weir", 0o755, []byte("program")}, {"LICENSE", 0o644, []byte("licence")}}
	for name, pack := range map[string]func(io.Writer, string, []item, time.Time) error{"tar.gz": packTar, "zip": packZip} {
		var first, second bytes.Buffer
		if err := errors.Join(pack(&first, "weir_0.1.0", items, when), pack(&second, "weir_0.1.0", items, when)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("two %s files with the same content differ", name)
		}
		got := names(t, name, first.Bytes())
		if want := []string{"weir_0.1.0/weir -rwxr-xr-x", "weir_0.1.0/LICENSE -rw-r--r--"}; !slices.Equal(got, want) {
			t.Errorf("the %s has %q; want %q", name, got, want)
		}
	}
}

// names returns the names and modes in an archive, and checks that all times are when.
func names(t *testing.T, form string, b []byte) []string {
	t.Helper()
	var found []string
	if form == "zip" {
		z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			if !f.Modified.Equal(when) {
				t.Errorf("%s has the time %v; want %v", f.Name, f.Modified, when)
			}
			found = append(found, f.Name+" "+f.Mode().String())
		}
		return found
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(when) {
			t.Errorf("%s has the time %v; want %v", h.Name, h.ModTime, when)
		}
		found = append(found, h.Name+" "+h.FileInfo().Mode().String())
	}
}

func TestTheUnitStartsTheCommandOfThePackage(t *testing.T) {
	b, err := unitOf(filepath.Join("..", "..", "deploy", "systemd", "weir-proxy.service"))
	if err != nil {
		t.Fatal(err)
	}
	if unit := string(b); !strings.Contains(unit, "\nExecStart=/usr/bin/weir proxy ") || strings.Contains(unit, "/usr/local") || strings.Contains(unit, "install -m") {
		t.Errorf("the unit does not fit the package:\n%s", unit)
	}
}

func TestReportSaysWhatWasNotRun(t *testing.T) {
	var progress, table, asJSON bytes.Buffer
	r := newReport("v0.1.0", &progress)
	for _, s := range []step{
		{"fine", func(context.Context) (string, error) { return "three", nil }},
		{"elsewhere", func(context.Context) (string, error) { return "", notRun("no darwin here") }},
	} {
		if err := r.do(t.Context(), "1/2", s); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
	broken := errors.New("broken")
	if err := r.do(t.Context(), "2/2", step{"broken", func(context.Context) (string, error) { return "", broken }}); err != broken {
		t.Errorf("do = %v; want %v", err, broken)
	}
	r.write(&table, false, nil)
	for _, want := range []string{"fine       ok", "elsewhere  not run", "no darwin here", "broken     failed", "could not run here: 1"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in the table:\n%s", want, &table)
		}
	}
	r.write(&asJSON, true, broken)
	var read report
	if err := json.Unmarshal(asJSON.Bytes(), &read); err != nil || read.OK || read.Error != "broken" || len(read.Steps) != 3 || read.Steps[1].Result != "not run" {
		t.Errorf("the JSON is %s, %v", &asJSON, err)
	}
}
