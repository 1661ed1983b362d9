package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A program for this machine runs. A file that the kernel cannot run is a note, and not a
// failure.
func TestPlatformRuns(t *testing.T) {
	if note, err := (platform{runtime.GOOS, runtime.GOARCH}).runs(t.Context()); note != "" || err != nil {
		t.Errorf("runs = %q, %v; want no note", note, err)
	}
	foreign := filepath.Join(t.TempDir(), "main")
	if err := os.WriteFile(foreign, []byte("\x7fELF of another machine"), 0o755); err != nil {
		t.Fatal(err)
	}
	if note := (platform{"linux", "386"}).starts(t.Context(), foreign); note == "" {
		t.Error("a file that cannot run: no note")
	}
}

// typeCheck finds what compiles only here, in a package and in its tests.
func TestTypeCheckFindsWhatIsNotPortable(t *testing.T) {
	for _, tt := range []struct {
		name, file, code string
		on               platform
		want             string // part of the error; empty: none
	}{
		{"a large int", "a.go", "package a\n\nconst Large int = 1 << 40\n", platform{"linux", "386"}, "overflows"},
		{"a large int with 64 bits", "a.go", "package a\n\nconst Large int = 1 << 40\n", platform{"windows", "amd64"}, ""},
		{"in a test", "a_test.go", "package a_test\n\nvar Large int = 1 << 40\n", platform{"linux", "386"}, "overflows"},
		{"in a function", "a.go", "package a\n\nfunc F() int { return 1 << 40 }\n", platform{"linux", "386"}, "overflows"},
		{"a signal", "a.go", "package a\n\nimport \"syscall\"\n\nvar Signal = syscall.SIGUSR1\n", platform{"windows", "amd64"}, "SIGUSR1"},
		{"a signal on Linux", "a.go", "package a\n\nimport \"syscall\"\n\nvar Signal = syscall.SIGUSR1\n", platform{"linux", "386"}, ""},
		{"a file for Linux only", "a_linux.go", "package a\n", platform{"windows", "amd64"}, "build constraints exclude all Go files"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("GOWORK", "off")
			dir := t.TempDir()
			for name, text := range map[string]string{"go.mod": "module example.com/a\n\ngo 1.25\n", tt.file: tt.code} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			err := typeCheck(t.Context(), tt.on, dir, ".")
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("typeCheck = %v; want an error with %q", err, tt.want)
			}
		})
	}
	if err := typeCheck(t.Context(), allPlatforms[0], t.TempDir(), "./..."); err == nil {
		t.Error("typeCheck of an empty folder returned no error")
	}
}
