package deploytest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const unitFile = root + "deploy/systemd/weir-proxy.service"

// directives returns the directives of the unit, with all their values.
func directives(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for line := range strings.Lines(read(t, unitFile)) {
		line = strings.TrimSpace(line)
		if name, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			all[name] = append(all[name], value)
		}
	}
	return all
}

// weir accepts the command line of the unit, and the unit allows enough time for the
// shutdown.
func TestUnitStartsWeir(t *testing.T) {
	d := directives(t)
	if len(d["ExecStart"]) != 1 {
		t.Fatalf("ExecStart=%q; want one", d["ExecStart"])
	}
	program, args, _ := strings.Cut(d["ExecStart"][0], " ")
	if filepath.Base(program) != "weir" {
		t.Errorf("it starts %s; want weir", program)
	}
	configuration := read(t, root+"deploy/systemd/weir.yaml")
	checked(t, configuration, strings.Fields(args))
	stop, err := time.ParseDuration(d["TimeoutStopSec"][0])
	if c := load(t, configuration); err != nil || stop <= end(c) {
		t.Errorf("TimeoutStopSec=%v, %v; want more than the drain time of %v", stop, err, end(c))
	}
	for name, want := range map[string]string{
		"Type": "notify", "ExecReload": "/bin/kill -HUP $MAINPID", "RestartPreventExitStatus": "2",
		"DynamicUser": "yes", "ProtectSystem": "strict", "NoNewPrivileges": "yes", "LoadCredential": "admin.token:/etc/weir/admin.token",
	} {
		if got := strings.Join(d[name], " and "); got != want {
			t.Errorf("%s=%s; want %s", name, got, want)
		}
	}
}

// systemd itself accepts the unit, once its program exists.
func TestSystemdTakesTheUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skipf("WITHOUT systemd-analyze: %v", err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "weir")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "weir-proxy.service")
	text := strings.ReplaceAll(read(t, unitFile), "/usr/local/bin/weir ", program+" ")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", name).CombinedOutput()
	if err != nil || strings.Contains(string(out), "weir-proxy.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
