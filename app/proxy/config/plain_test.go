package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/plain/plaintest"
)

// faultsOf loads a faulty configuration and returns the faults.
func faultsOf(t *testing.T, text string) config.Faults {
	t.Helper()
	write(t, "weir.yaml", text)
	_, err := config.Load(config.Source{File: "weir.yaml"})
	var all config.Faults
	if !errors.As(err, &all) {
		t.Fatalf("%q: %v; want faults", text, err)
	}
	return all
}

// No fault contains the user and password of a URL, wherever the URL is written.
func TestH21_FaultsHaveNoPasswords(t *testing.T) {
	folder(t)
	for _, url := range []string{
		"http://me:sesame@h.test:1", "http://me:ses/ame@h.test:1", "http://me:ses@me@h.test", "redis://:sesame@h.test:6379", "nats://me:ses'ame@h.test:4222",
		"me:sesame@h.test:1", ":sesame@h.test:1", "http://me:ses ame@h.test", "http://me:ses#ame@h.test", "http://me:ses?ame@h.test", "http://me:%zzsesame@h.test",
	} {
		for where, text := range map[string]string{
			"servers":   "upstreams: [{name: a, servers: [%q]}]",
			"upstream":  "upstreams: [%q]",
			"redis":     "fleet: {redis: {addresses: [%q]}}",
			"nats":      "jobs: {nats: [%q]}",
			"otlp":      "telemetry: {otlp: {endpoint: %q}}",
			"listen":    "listen: [{address: %q}]",
			"admin":     "admin: {address: %q}",
			"unknown":   "zzz: %q",
			"as a name": "%q: 1",
		} {
			for _, f := range faultsOf(t, fmt.Sprintf(text, url)) {
				for _, shown := range []string{f.Error(), f.Text()} {
					if strings.Contains(shown, ":ses") || strings.Contains(shown, "ame@") || strings.Contains(shown, "sesame") {
						t.Errorf("%s in %s: %s; want it without the password", url, where, shown)
					}
				}
			}
		}
	}
}

// Faults show hidden characters in a file as escapes, and the caret is still below the
// right place.
func TestH21_FaultsHideNothing(t *testing.T) {
	folder(t)
	for _, k := range plaintest.Kinds {
		if strings.HasPrefix(k.Shown, `\x`) {
			continue // no YAML
		}
		for _, text := range []string{
			"listen: [{address: \"a" + k.Hidden + "b\"}]", "zzz" + k.Hidden + ": 1", "name: \"a" + k.Hidden + "b\"", "cache: 1 # " + k.Hidden,
			"routes: [{name: a, path: \"/" + k.Hidden + "\", methods: [\"g" + k.Hidden + "\"]}]",
		} {
			for _, f := range faultsOf(t, text) {
				for _, shown := range []string{f.Error(), f.Text()} {
					if found := plaintest.Find(shown); found != "" {
						t.Errorf("%s: the fault is %q, which contains %s", k.Name, shown, found)
					}
				}
			}
		}
	}
	got := faultsOf(t, "listen: [{address: \"a\u202eb:1\", h2c: 77}]")
	lines := strings.Split(got[len(got)-1].Text(), "\n")
	if at := strings.Index(lines[1], "77"); at < 0 || strings.Index(lines[2], "^") != at {
		t.Errorf("the fault is\n%s\nwant the caret under 77", strings.Join(lines, "\n"))
	}
}
