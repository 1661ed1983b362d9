package deploytest_test

import (
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

// The chart, rendered by deploy/helm/check.sh, fits what weir does: its configuration
// loads without a warning, and ports, probes, the secret and times match.
func TestHelmChart(t *testing.T) {
	var m struct{ Data map[string]string }
	var d deployment
	var s struct {
		Spec struct{ Selector map[string]string }
	}
	kinds := 0
	for _, text := range documents(t, root+"deploy/helm/rendered.yaml") {
		var into any
		switch {
		case strings.Contains(text, "\nkind: ConfigMap"):
			into = &m
		case strings.Contains(text, "\nkind: Deployment"):
			into = &d
		case strings.Contains(text, "\nkind: Service\n"):
			into = &s
		default:
			continue
		}
		kinds++
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	spec := d.Spec.Template.Spec
	if kinds != 3 || len(spec.Containers) != 1 {
		t.Fatalf("%d of three kinds, %d containers", kinds, len(spec.Containers))
	}
	c, weir := load(t, m.Data["weir.yaml"]), spec.Containers[0]
	checked(t, m.Data["weir.yaml"], weir.Args)
	if grace := time.Duration(spec.Grace) * time.Second; grace <= end(c) {
		t.Errorf("the pod has %v to stop; weir drains for %v", grace, end(c))
	}
	ports := map[string]int{}
	for _, p := range weir.Ports {
		ports[p.Name] = p.ContainerPort
	}
	if c.Listen[0].Address != ":8080" || c.Admin.Address != ":9090" || ports["http"] != 8080 || ports["weir-admin"] != 9090 {
		t.Errorf("listens on %q and %q; the ports are %v", c.Listen[0].Address, c.Admin.Address, ports)
	}
	for _, p := range []probe{weir.LivenessProbe, weir.ReadinessProbe} {
		if p.Get.Port != "weir-admin" || p.Get.Path != "/healthz" && p.Get.Path != "/readyz" {
			t.Errorf("a probe asks for %+v", p.Get)
		}
	}
	for name, value := range s.Spec.Selector {
		if d.Spec.Template.Metadata.Labels[name] != value {
			t.Errorf("the Service selects %s=%s; pods have %v", name, value, d.Spec.Template.Metadata.Labels)
		}
	}
	if v := spec.Volumes[len(spec.Volumes)-1].Secret.Name; v != "shop-weir" || !strings.Contains(m.Data["weir.yaml"], "token_file: /etc/weir-secrets/admin.token") {
		t.Errorf("the secret is %q; want the one with the token", v)
	}
}
