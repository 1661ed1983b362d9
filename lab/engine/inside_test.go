package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// These tests are internal: from outside they would need a machine without the
// engines, or would change the machine.

func TestMissingNamesThePackage(t *testing.T) {
	want := map[string]string{
		"postgres": "postgresql", "cassandra": "openjdk-17-jre-headless", "nginx": "nginx-light",
		"varnish": "varnish", "caddy": "caddy", "redis": "redis-server", "valkey": "valkey-server",
		"ab": "apache2-utils", "wrk": "wrk", "hey": "hey", "h2load": "nghttp2-client", "promtool": "prometheus", "pgbouncer": "pgbouncer", "chromium": "chromium", "node": "nodejs",
	}
	for _, name := range Names() {
		err := missing(name)
		if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "apt-get install "+want[name]) {
			t.Errorf("%s: %v; want ErrMissing and the package %s", name, err, want[name])
		}
	}
}

func TestInstallWithoutAptNamesThePackage(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, name := range []string{"ab", "caddy", "cassandra", "chromium", "h2load", "hey", "nginx", "node", "pgbouncer", "promtool", "redis", "valkey", "varnish", "wrk"} {
		err := installPackages(t.Context(), io.Discard, name, func() error { return missing(name) })
		if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "apt-get install "+known[name].packages) {
			t.Errorf("install %s = %v; want ErrMissing and the package", name, err)
		}
	}
}

func TestInstallWaitsForItsTurn(t *testing.T) {
	unlock, err := lockCache(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lockCache(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("second lockCache = %v; want Canceled while it waits for the lock", err)
	}
	unlock()
	unlock, err = lockCache(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestFindProgram(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":.")
	path := filepath.Join(dir, "hey")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, _ := findProgram("hey"); got == path {
		t.Errorf("findProgram = %q, which is not executable", got)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := findProgram("hey"); got != path || err != nil {
		t.Errorf("findProgram = %q, %v; want %q, which is first on the search path", got, err, path)
	}
	if _, err := findProgram("postgres"); err == nil {
		t.Error("findProgram(postgres) found one; want an error, because it is several programs")
	}
}

// A program that was unpacked but not installed runs with the libraries, fonts and
// tools unpacked with it.
func TestLauncher(t *testing.T) {
	root := filepath.Join(t.TempDir(), "with a blank")
	for path, perm := range map[string]os.FileMode{
		"usr/bin/engine": 0o755, "usr/bin/tool": 0o755, "usr/lib/engine/engine": 0o755,
		"usr/lib/x86_64-linux-gnu/liba.so.1": 0o644, "usr/lib/x86_64-linux-gnu/sub/libb.so": 0o644,
		"usr/bin/x-gcc": 0o755, "usr/lib/x86_64-linux-gnu/plugins/none": 0o644, "etc/fonts/fonts.conf": 0o644, "usr/include/stdint.h": 0o644,
	} {
		text := "#!/bin/sh\n"
		if path == "usr/lib/engine/engine" { // not the script in usr/bin
			text += `printf '%s\n' "$LD_LIBRARY_PATH" "$C_INCLUDE_PATH" "$FONTCONFIG_FILE" "$(command -v tool)" "$(x-gcc -o x)" "$@"`
		}
		if path == "usr/bin/x-gcc" {
			text += `echo "$@"`
		}
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), perm)); err != nil {
			t.Fatal(err)
		}
	}
	if err := addLauncher(root, "engine"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(launchers(root), "engine"), "an argument", "$x")
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	got := strings.ReplaceAll(string(out), root+"/weir/..", "ROOT")
	const want = "ROOT/usr/lib/x86_64-linux-gnu:ROOT/usr/lib/x86_64-linux-gnu/sub\nROOT/usr/include\nROOT/etc/fonts/fonts.conf\n" +
		"ROOT/usr/bin/tool\n-o x -nostdlib\nan argument\n$x\n"
	if err != nil || got != want {
		t.Errorf("the launcher printed %q, %v; want %q", got, err, want)
	}
	if err := addLauncher(root, "other"); err == nil {
		t.Error("a launcher of a missing program; want an error")
	}
}

func TestIsJava17(t *testing.T) {
	for answer, want := range map[string]bool{
		`openjdk version "17.0.15" 2025-04-15`: true,
		`openjdk version "17" 2021-09-14`:      true,
		`java version "1.8.0_401"`:             false,
		`openjdk version "21.0.7"`:             false,
		`no such thing`:                        false,
	} {
		path := filepath.Join(t.TempDir(), "java")
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho '"+answer+"' >&2\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if got := isJava17(path); got != want {
			t.Errorf("isJava17 with %q = %t; want %t", answer, got, want)
		}
	}
}

func TestCassandraJars(t *testing.T) {
	jars, err := parseJars(cassandraJars)
	if err != nil || len(jars) != 100 {
		t.Fatalf("parseJars = %d jars, %v; want the 100 that Maven resolved", len(jars), err)
	}
	files := map[string]bool{} // they all go into one folder
	for _, j := range jars {
		if name := filepath.Base(j.path); files[name] {
			t.Errorf("two jars are called %s", name)
		} else {
			files[name] = true
		}
	}
	if name := "cassandra-all-" + cassandraVersion + ".jar"; !files[name] {
		t.Errorf("%s is not in the list", name)
	}
	digest := strings.Repeat("0", 64)
	for _, bad := range []string{"x.jar", "12 x.jar", digest + " ../x.jar", digest + " /x.jar", digest + " x.exe"} {
		if _, err := parseJars(bad + "\n"); err == nil {
			t.Errorf("parseJars(%q) = nil error", bad)
		}
	}
}

func TestFetchJarsAllOrNone(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.URL.Path)
	}))
	defer s.Close()
	t.Setenv("WEIR_MAVEN", s.URL+"/mirror/")
	var list string
	for i := range 20 {
		path := fmt.Sprintf("g/a/%d/a-%[1]d.jar", i)
		list += fmt.Sprintf("%x %s\n", sha256.Sum256([]byte("/mirror/"+path)), path)
	}
	base := t.TempDir()
	dir := filepath.Join(base, "jars")
	wrong := strings.Repeat("0", 64) + " g/a/1/wrong.jar\n"
	err := fetchJars(t.Context(), io.Discard, dir, list+wrong)
	if err == nil || !strings.Contains(err.Error(), "wrong.jar: SHA-256 is") {
		t.Errorf("fetchJars = %v; want the file with the wrong digest", err)
	}
	if left, _ := os.ReadDir(base); len(left) > 0 {
		t.Errorf("a failed fetch left %v", left)
	}
	if err := fetchJars(t.Context(), io.Discard, dir, list); err != nil {
		t.Fatal(err)
	}
	if have, _ := os.ReadDir(dir); len(have) != 20 {
		t.Errorf("%d files; want 20", len(have))
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "a-7.jar")); string(b) != "/mirror/g/a/7/a-7.jar" {
		t.Errorf("a-7.jar is %q", b)
	}
}

// One failed jar cancels the other fetches, which here would never finish.
func TestFetchJarsEndsAtTheFirstError(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "wrong.jar") {
			io.WriteString(w, "wrong")
			return
		}
		<-r.Context().Done()
	}))
	defer s.Close()
	t.Setenv("WEIR_MAVEN", s.URL)
	digest, base := strings.Repeat("0", 64), t.TempDir()
	list := digest + " wrong.jar\n"
	for i := range jarsAtOnce - 1 {
		list += fmt.Sprintf("%s %d.jar\n", digest, i)
	}
	err := fetchJars(t.Context(), io.Discard, filepath.Join(base, "jars"), list)
	if err == nil || !strings.Contains(err.Error(), "wrong.jar: SHA-256 is") {
		t.Errorf("fetchJars = %v; want the file with the wrong digest", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := fetchJars(ctx, io.Discard, filepath.Join(base, "more"), list); !errors.Is(err, context.Canceled) {
		t.Errorf("fetchJars with an ended context = %v; want Canceled", err)
	}
}

func TestDenyServices(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy-rc.d")
	deny := func() func() error {
		t.Helper()
		allow, err := denyServices(file)
		if err != nil {
			t.Fatal(err)
		}
		return allow
	}
	deny() // and then the program is killed: the next call takes over its policy
	allow := deny()
	if b, _ := os.ReadFile(file); string(b) != policyText {
		t.Errorf("the policy is %q; want %q", b, policyText)
	}
	if err := allow(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the policy is still there: %v", err)
	}
	others := []byte("#!/bin/sh\nexit 104\n")
	if err := os.WriteFile(file, others, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := deny()(); err != nil {
		t.Error(err)
	}
	if b, _ := os.ReadFile(file); !bytes.Equal(b, others) {
		t.Errorf("another program's policy is now %q; want it unchanged", b)
	}
}

func TestRelink(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"etc/java", "usr/lib/jvm"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "etc/java/jvm.cfg"), []byte("inside"), 0o644); err != nil {
		t.Fatal(err)
	}
	links := map[string]string{"conf": "/etc/java", "cfg": "/etc/java/jvm.cfg", "outside": "/no/such/file", "near": "conf/jvm.cfg"}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(root, "usr/lib/jvm", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := relink(root); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"conf/jvm.cfg", "cfg", "near"} {
		if b, err := os.ReadFile(filepath.Join(root, "usr/lib/jvm", path)); string(b) != "inside" {
			t.Errorf("%s leads to %q, %v; want the unpacked file", path, b, err)
		}
	}
	if got, _ := os.Readlink(filepath.Join(root, "usr/lib/jvm/outside")); got != links["outside"] {
		t.Errorf("a link to a file of the system leads to %q; want %q", got, links["outside"])
	}
}

func TestExplainKnowsATakenPort(t *testing.T) {
	for text, want := range map[string]bool{
		"FATAL: could not bind: Address already in use":                true,
		"bind() to 127.0.0.1:1 failed (98: Address already in use)":    true,
		"127.0.0.1:7000 is in use by another process":                  true,
		"IllegalStateException: Failed to bind port 9042 on 127.0.0.1": true,
		"FATAL: no such setting":                                       false,
	} {
		log := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(log, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := explain(io.EOF, log); errors.Is(err, errPortTaken) != want || !errors.Is(err, io.EOF) {
			t.Errorf("explain with %q = %v; want errPortTaken: %t", text, err, want)
		}
	}
}
