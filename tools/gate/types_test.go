package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A package that uses what has changed in another one, also in its tests, is an error.
func TestTypeCheckFindsWhatAChangeBreaks(t *testing.T) {
	files := map[string]string{
		"go.mod":              "module " + modulePath + "\n\ngo 1.25.0\n",
		"a/a.go":              "package a\n\nimport \"strings\"\n\nfunc A() string { return strings.Repeat(\"a\", 2) }\n",
		"a/export_test.go":    "package a\n\nvar B = A\n",
		"a/a_test.go":         "package a_test\n\nimport (\n\t\"testing\"\n\n\t\"" + modulePath + "/a\"\n\t\"" + modulePath + "/user\"\n)\n\nfunc Test(t *testing.T) { user.Take(a.T(a.B())) }\n",
		"a/t.go":              "package a\n\ntype T string\n",
		"user/user.go":        "package user\n\nimport \"" + modulePath + "/a\"\n\nfunc Take(a.T) {}\n\nvar _ = a.A()\n",
		"other/other_test.go": "package other\n\nimport \"" + modulePath + "/a\"\n\nvar _ = a.A()\n",
	}
	check := func() error {
		t.Helper()
		dir := t.TempDir()
		for name, text := range files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("GOWORK", "off")
		return typeCheck(t.Context(), host, dir, "./...")
	}
	if err := check(); err != nil {
		t.Errorf("typeCheck = %v; want no error", err)
	}
	files["a/a.go"] = strings.Replace(files["a/a.go"], "func A()", "func A(n int)", 1)
	err := check()
	for _, want := range []string{"user.go:7:", "other_test.go:5:", "a_test.go:10:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("typeCheck = %v; want an error at %s", err, want)
		}
	}
}
