package proxy_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Every place that reports the running version reports the same one, and it is never
// empty.
func TestH21_OneVersionEverywhere(t *testing.T) {
	p := start(t, "--upstream", newLibrary(t).URL, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	ask := exec.CommandContext(t.Context(), os.Args[0], "--version")
	ask.Env = append(os.Environ(), asWeir+"=1")
	flag, err := ask.Output()
	words := regexp.MustCompile(`^weir (.+) \(go`).FindSubmatch(flag)
	if err != nil || words == nil {
		t.Fatalf("weir --version = %q, %v; want a version", flag, err)
	}
	want := string(words[1])
	for where, text := range map[string]string{
		"the log's line at the start": p.await(`"msg":"ready"`, 1),
		"/stats":                      get(p.admin + "/stats").body,
		"the console":                 get(p.admin + "/console/api/snapshot").body,
		"/metrics":                    get(p.admin + "/metrics").body,
	} {
		if i := strings.Index(text, "weir_build_info{"); i >= 0 {
			text = text[i:]
		}
		found := regexp.MustCompile(`\bversion"?[:=] ?"([^"]*)"`).FindStringSubmatch(text)
		if found == nil || found[1] != want {
			t.Errorf("%s has version %q; want %q", where, found, want)
		}
		if strings.Contains(text, "(no version)") {
			t.Errorf("%s says that there is no version", where)
		}
	}
}
