package config_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/app/golden"
	"github.com/weir-go/weir/app/proxy/config"
)

const reference = "../../../docs/reference"

func TestDocsAreGenerated(t *testing.T) {
	golden.Compare(t, filepath.Join(reference, "proxy.schema.json"), config.Schema())
	golden.Compare(t, filepath.Join(reference, "proxy-configuration.md"), config.Reference())
}

// example copies the example to a folder with the files that it names, which becomes
// the working directory.
func example(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(reference, "weir.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := folder(t)
	for _, sub := range []string{"tls", "secrets", "errors"} {
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string][]string{
		"server.pem": {"tls/server.pem", "tls/client.pem", "tls/ca.pem"},
		"shop.pem":   {"tls/shop.pem"},
		"shop.key":   {"tls/shop.key"},
		"error.html": {"errors/busy.html"},
		"error.json": {"errors/error.json"},
		"server.key": {"tls/server.key", "tls/client.key"},
		"good.token": {"secrets/admin.token", "secrets/search.key", "secrets/redis.password", "secrets/sentinel.password", "secrets/nats.password", "secrets/otlp.authorization"},
	} {
		content, err := os.ReadFile(filepath.Join(dir, from))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range to {
			write(t, name, string(content))
		}
	}
	write(t, "weir.example.yaml", string(text))
	return string(text)
}

func TestExampleLoadsAndShowsEverySection(t *testing.T) {
	text := example(t)
	c := must(t, config.Source{File: "weir.example.yaml"})
	if len(c.Warnings) > 0 {
		t.Errorf("warnings:\n%s", c.Warnings.Text())
	}
	g, err := c.Gateway()
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Routes[0].SetRequest.Get("X-Search-Key"); got != "0123456789abcdef" {
		t.Errorf("X-Search-Key = %q; want the contents of the file", got)
	}
	if u := g.Upstreams[1].TLS; u == nil || u.RootCAs == nil || len(u.Certificates) != 1 || u.ServerName != "shop.example" {
		t.Errorf("TLS of shop = %+v", u)
	}
	var doc map[string]any
	if err := yaml.Load([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(config.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	for _, path := range missingSections(schema, doc, "") {
		t.Errorf("the example does not show %s", path)
	}
}

// missingSections returns the sections of a schema that occur nowhere in a document.
func missingSections(schema map[string]any, docs any, path string) []string {
	var missing []string
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		p := p.(map[string]any)
		if items, ok := p["items"].(map[string]any); ok {
			p = items
		}
		if p["properties"] == nil && p["additionalProperties"] == nil && path != "" {
			continue // a setting, not a section
		}
		var below []any
		for _, doc := range asList(docs) {
			if m, ok := doc.(map[string]any); ok && m[name] != nil {
				below = append(below, asList(m[name])...)
			}
		}
		if below == nil {
			missing = append(missing, path+name)
			continue
		}
		missing = append(missing, missingSections(p, below, path+name+".")...)
	}
	return missing
}

func asList(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("proxy.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("proxy.schema.json") // also against the meta-schema
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// instance returns a YAML file as a JSON validator sees it.
func instance(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	if err := yaml.Load(text, &v, yaml.WithUniqueKeys(false)); err != nil {
		return nil
	}
	j, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(j))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Files that load are valid for an independent validator.
func TestSchemaAcceptsWhatLoads(t *testing.T) {
	schema := compiled(t)
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, filepath.Join(reference, "weir.example.yaml")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(instance(t, text)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if strings.Contains(file, "good") {
			dumped, err := os.ReadFile(strings.TrimSuffix(file, ".yaml") + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(instance(t, dumped)); err != nil {
				t.Errorf("%s written out: %v", file, err)
			}
		}
	}
}

// Faults of single settings make a file invalid. The schema does not cover faults in
// the combination of settings.
func TestSchemaRefusesWhatIsWrong(t *testing.T) {
	schema := compiled(t)
	for _, name := range []string{"unknown-fields", "wrong-types", "units", "bounds", "booleans", "missing", "a-list"} {
		text, err := os.ReadFile("testdata/faults/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(instance(t, text)); err == nil {
			t.Errorf("%s is valid", name)
		}
	}
	for _, text := range []string{
		"drain: {tll: 1s}", "drain: {timeout: 60}", "drain: {timeout: 1d}", "cache: {memory: 64MB}", "log: {level: loud}",
		"observe: 1", "upstreams: [{name: a}]", "upstreams: [{name: a, servers: []}]", "routes: [{name: a, concurrency: some}]",
		"server: {max_concurrent_streams: 0}", "routes: [{name: a, rate: {}}]", "drain: {timeout: none}", "y-a: 1",
	} {
		if err := schema.Validate(instance(t, []byte(text))); err == nil {
			t.Errorf("%s is valid", text)
		}
	}
}
