package deploytest_test

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// instructions returns the instructions of the Dockerfile, with continued lines joined.
func instructions(t *testing.T) []string {
	t.Helper()
	var all []string
	for line := range strings.Lines(strings.ReplaceAll(read(t, root+"deploy/docker/Dockerfile"), "\\\n", " ")) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			all = append(all, line)
		}
	}
	return all
}

// The files that the Dockerfile copies from the repository exist, and weir accepts the
// command line that it runs.
func TestDockerfileFitsTheRepository(t *testing.T) {
	var text = strings.Join(instructions(t), "\n")
	work := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, root+"go.work"))
	if work == nil || !strings.Contains(text, "FROM golang:"+work[1]+"-") {
		t.Errorf("go.work requires %v; the Dockerfile uses %q", work, instructions(t)[0])
	}
	build := regexp.MustCompile(`CGO_ENABLED=0 go build .* -o (\S+) (\./\S+)`).FindStringSubmatch(text)
	if build == nil || !strings.Contains(text, "--from=build "+build[1]+" /weir") {
		t.Fatalf("no static build, or its program is not copied:\n%s", text)
	}
	if _, err := os.Stat(filepath.FromSlash(root + build[2] + "/main.go")); err != nil {
		t.Errorf("go build %s: %v", build[2], err)
	}
	if !regexp.MustCompile(`(?m)^USER [1-9]\d*:[1-9]\d*$`).MatchString(text) || !strings.Contains(text, "\nFROM scratch\n") {
		t.Error("want an image from scratch, and a numeric user other than root")
	}
	var cmd, entry []string
	for _, line := range instructions(t) {
		for name, into := range map[string]*[]string{"CMD ": &cmd, "ENTRYPOINT ": &entry} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				if err := json.Unmarshal([]byte(rest), into); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		}
	}
	if len(entry) != 1 || entry[0] != "/weir" {
		t.Errorf("ENTRYPOINT %q; want /weir", entry)
	}
	checked(t, read(t, root+"deploy/docker/weir.yaml"), cmd)
}

// Each file that compose.yaml mounts exists, and its time-outs are consistent.
func TestComposeFits(t *testing.T) {
	const dir = root + "deploy/docker/"
	var f struct {
		Services map[string]struct {
			Build   struct{ Context, Dockerfile string }
			Volumes []string
			Secrets []string
			Grace   string `yaml:"stop_grace_period"`
		}
		Secrets map[string]struct{ File string }
		Volumes map[string]any
	}
	parse(t, dir+"compose.yaml", &f)
	fallback := regexp.MustCompile(`\$\{\w+:-([^}]*)\}`)
	for service, s := range f.Services {
		for _, v := range s.Volumes {
			host, _, _ := strings.Cut(fallback.ReplaceAllString(v, "$1"), ":")
			if _, ok := f.Volumes[host]; ok {
				continue
			}
			if _, err := os.Stat(filepath.FromSlash(path.Join(dir, host))); err != nil {
				t.Errorf("%s mounts %s: %v", service, host, err)
			}
		}
		for _, name := range s.Secrets {
			if f.Secrets[name].File == "" {
				t.Errorf("%s uses the secret %s, which is not defined", service, name)
			}
		}
		if b := s.Build; b.Dockerfile != "" {
			if _, err := os.Stat(filepath.FromSlash(path.Join(dir, b.Context, b.Dockerfile))); err != nil {
				t.Error(err)
			}
		}
	}
	c := load(t, read(t, dir+"weir.yaml"))
	if grace, err := time.ParseDuration(f.Services["weir"].Grace); err != nil || grace <= end(c) {
		t.Errorf("stop_grace_period %v, %v; want more than the drain time of %v", grace, err, end(c))
	}
	for _, name := range []string{".gitignore", "deploy/docker/Dockerfile.dockerignore"} {
		if !strings.Contains(read(t, root+name), "deploy/docker/admin.token\n") {
			t.Errorf("%s does not exclude the token", name)
		}
	}
	for _, u := range c.Upstreams {
		for _, server := range u.Servers {
			name, _, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
			if _, ok := f.Services[name]; !ok {
				t.Errorf("the upstream %s is not a service", server.URL)
			}
		}
	}
	if c.Admin.AllowedHosts == nil || c.Admin.AllowedHosts[0] != "weir" {
		t.Errorf("allowed_hosts %v; want weir, the host that Prometheus requests", c.Admin.AllowedHosts)
	}
}

// Grafana finds the dashboard where compose.yaml mounts it.
func TestGrafanaFindsTheDashboard(t *testing.T) {
	var p struct {
		Providers []struct{ Options struct{ Path string } }
	}
	parse(t, root+"deploy/docker/grafana/dashboards/weir.yaml", &p)
	mount := "../grafana:" + p.Providers[0].Options.Path + ":ro"
	if !strings.Contains(read(t, root+"deploy/docker/compose.yaml"), mount) {
		t.Errorf("compose.yaml does not mount %s", mount)
	}
}
