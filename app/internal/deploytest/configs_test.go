package deploytest_test

import (
	"bytes"
	"context"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/app/cli"
	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/proxy/admin"
	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/gateway"
)

// Every YAML file in deploy is valid YAML. Templates of Helm become YAML later; see
// TestHelmChart.
func TestFilesAreYAML(t *testing.T) {
	n := 0
	err := filepath.WalkDir(filepath.FromSlash(root+"deploy"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "templates" {
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || !strings.Contains(filepath.Ext(name), "ml") {
			return err
		}
		n++
		documents(t, name)
		return nil
	})
	if err != nil || n < 9 {
		t.Errorf("%d files, %v; want all of them", n, err)
	}
}

// documents returns the documents of a file, each as text.
func documents(t *testing.T, name string) (all []string) {
	t.Helper()
	for part := range strings.SplitSeq(read(t, name), "\n---\n") {
		var v any
		if err := yaml.Unmarshal([]byte(part), &v); err != nil || v == nil {
			t.Fatalf("%s: %v, %v", name, v, err)
		}
		all = append(all, part)
	}
	return all
}

// secrets are the folders in which the files in deploy expect tokens.
var secrets = []string{"/run/secrets/", "/etc/weir-secrets/", "${CREDENTIALS_DIRECTORY}/"}

// placed returns text with the folders of secrets replaced by dir, and creates the
// secrets there.
func placed(t *testing.T, dir, text string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "admin.token"), []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, dir+"/")
	}
	return text
}

// load reads a configuration as weir proxy does, and fails the test on a warning.
func load(t *testing.T, text string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(name, []byte(placed(t, dir, text)), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Source{File: name})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings:\n%s", c.Warnings.Text())
	}
	return c
}

func TestConfigurationsLoad(t *testing.T) {
	for _, name := range []string{"systemd/weir.yaml", "docker/weir.yaml", "docker/weir.fleet.yaml"} {
		t.Run(name, func(t *testing.T) {
			c := load(t, read(t, root+"deploy/"+name))
			if c.Admin.Address == "" || (c.Fleet != nil) != strings.Contains(name, "fleet") {
				t.Errorf("admin %q, fleet %+v", c.Admin.Address, c.Fleet)
			}
		})
	}
}

// checked runs weir proxy check with the arguments of weir proxy and this
// configuration.
func checked(t *testing.T, configuration string, args []string) {
	t.Helper()
	dir := t.TempDir()
	if len(args) == 0 || args[0] != "proxy" {
		t.Fatalf("weir %v; want weir proxy", args)
	}
	name := filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(name, []byte(placed(t, dir, configuration)), 0o600); err != nil {
		t.Fatal(err)
	}
	line := []string{"proxy", "check"}
	for _, a := range args[1:] {
		if a == "/etc/weir/weir.yaml" {
			a = name
		}
		line = append(line, placed(t, dir, a))
	}
	var out bytes.Buffer
	code := cli.Main(command.Env{
		Args: line, Stdout: &out, Stderr: &out, Getenv: func(string) string { return "" },
		Signals: make(chan os.Signal), Exit: func(int) {},
	})
	if code != command.ExitOK || !strings.Contains(out.String(), "OK: "+name) || strings.Contains(out.String(), "warning") {
		t.Errorf("weir %v: exit code %d with the output\n%s", line, code, out.String())
	}
}

// end returns how long the shutdown of a proxy can take.
func end(c *config.Config) time.Duration {
	return time.Duration(c.Drain.Delay) + time.Duration(c.Drain.Timeout)
}

type container struct {
	Name, Image string
	Args        []string
	Ports       []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	Lifecycle struct {
		PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
	}
	LivenessProbe  probe `yaml:"livenessProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
}

type probe struct {
	Get struct{ Path, Port string } `yaml:"httpGet"`
}

type deployment struct {
	Spec struct {
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []container
				Volumes    []struct {
					Secret struct {
						Name string `yaml:"secretName"`
					}
				}
			}
		}
	}
}

// sidecar returns the contents of kubernetes/sidecar.yaml.
func sidecar(t *testing.T) (configuration string, d deployment) {
	t.Helper()
	var m struct{ Data map[string]string }
	for _, text := range documents(t, root+"deploy/kubernetes/sidecar.yaml") {
		var into any
		switch {
		case strings.Contains(text, "\nkind: ConfigMap"):
			into = &m
		case strings.Contains(text, "\nkind: Deployment"):
			into = &d
		default:
			continue
		}
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	if m.Data["weir.yaml"] == "" || len(d.Spec.Template.Spec.Containers) != 2 {
		t.Fatalf("ConfigMap %v, Deployment %+v", m, d)
	}
	return m.Data["weir.yaml"], d
}

func TestSidecarFits(t *testing.T) {
	configuration, d := sidecar(t)
	c := load(t, configuration)
	spec := d.Spec.Template.Spec
	app, weir := spec.Containers[0], spec.Containers[1]
	checked(t, configuration, weir.Args)

	grace, sleep := time.Duration(spec.Grace)*time.Second, time.Duration(app.Lifecycle.PreStop.Sleep.Seconds)*time.Second
	if sleep <= end(c) || grace <= sleep || weir.Lifecycle.PreStop.Sleep.Seconds != 0 {
		t.Errorf("the service sleeps for %v, the grace period of the pod is %v; want the sleep longer than weir's %v, and the grace period longer than the sleep", sleep, grace, end(c))
	}
	ports := map[string]int{}
	for _, p := range weir.Ports {
		ports[p.Name] = p.ContainerPort
	}
	if c.Listen[0].Address != ":8080" || ports["http"] != 8080 || c.Admin.Address != ":9090" || ports["weir-admin"] != 9090 {
		t.Errorf("ports %v; the configuration uses %s and %s", ports, c.Listen[0].Address, c.Admin.Address)
	}
	for _, p := range []probe{weir.LivenessProbe, weir.ReadinessProbe} {
		if p.Get.Port != "weir-admin" {
			t.Errorf("a probe uses port %q; want the admin listener's", p.Get.Port)
		}
		if code := probed(t, p.Get.Path); code != http.StatusOK {
			t.Errorf("the kubelet's GET %s gets %d; want 200", p.Get.Path, code)
		}
	}
	if probed(t, "/stats") == http.StatusOK {
		t.Error("/stats is accessible without the token")
	}
}

// probed returns the status that the kubelet gets from an admin listener with a token.
// The kubelet sends no token, and uses the pod's address.
func probed(t *testing.T, path string) int {
	t.Helper()
	g, err := gateway.New(gateway.Config{
		Upstreams: []gateway.Upstream{{Name: "shop", Servers: []string{"http://127.0.0.1:9"}}},
		Routes:    []gateway.Route{{Name: "shop"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.Background())
	r := httptest.NewRequest(http.MethodGet, "http://10.1.2.3:9090"+path, nil)
	local := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 9090}
	w := httptest.NewRecorder()
	admin.New(g, admin.Options{Token: "0123456789abcdef"}).ServeHTTP(w, r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local)))
	return w.Code
}

func TestPodMonitorFindsTheSidecar(t *testing.T) {
	_, d := sidecar(t)
	var m struct {
		Spec struct {
			Selector struct {
				Labels map[string]string `yaml:"matchLabels"`
			}
			Endpoints []struct {
				Port, Path    string
				Authorization struct{ Credentials struct{ Name, Key string } }
			} `yaml:"podMetricsEndpoints"`
		}
	}
	parse(t, root+"deploy/kubernetes/podmonitor.yaml", &m)
	for name, value := range m.Spec.Selector.Labels {
		if d.Spec.Template.Metadata.Labels[name] != value {
			t.Errorf("the pods have labels %v; the monitor selects %s=%s", d.Spec.Template.Metadata.Labels, name, value)
		}
	}
	var secret string
	for _, v := range d.Spec.Template.Spec.Volumes {
		secret += v.Secret.Name
	}
	if len(m.Spec.Selector.Labels) == 0 || len(m.Spec.Endpoints) != 1 {
		t.Fatalf("monitor %+v", m)
	}
	e := m.Spec.Endpoints[0]
	if e.Port != "weir-admin" || e.Path != "/metrics" || e.Authorization.Credentials.Name != secret || e.Authorization.Credentials.Key != "admin.token" {
		t.Errorf("endpoint %+v; want /metrics of weir-admin, with admin.token of %s", e, secret)
	}
}
