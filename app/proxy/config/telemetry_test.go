package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy/config"
)

func TestTelemetryAccess(t *testing.T) {
	example(t)
	c := must(t, config.Source{File: "weir.example.yaml"})
	a, err := c.TelemetryAccess()
	if err != nil {
		t.Fatal(err)
	}
	if a.Service != "shop-gateway" || a.Endpoint != "https://otlp.internal.example:4318" || !a.Metrics || !a.Traces ||
		a.Interval != 15*time.Second || a.Timeout != 5*time.Second || a.Sample == nil || *a.Sample != 0.1 || !a.Trust ||
		a.TLS == nil || a.TLS.RootCAs == nil || len(a.Headers) != 2 ||
		a.Headers["Authorization"] != "0123456789abcdef" || a.Headers["X-Scope-Orgid"] != "shop" {
		t.Errorf("TelemetryAccess = %+v", a)
	}
	write(t, "secrets/otlp.authorization", "")
	write(t, "tls/ca.pem", "")
	_, err = c.TelemetryAccess()
	for _, part := range []string{"telemetry.otlp.headers_from_file.Authorization", "telemetry.otlp.tls"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("TelemetryAccess without its files = %v; want a fault about %s", err, part)
		}
	}
}

// Settings that are not in the file are left to the SDK, which reads its own variables.
func TestTelemetryAccessSaysNothingThatIsNotWritten(t *testing.T) {
	folder(t)
	c, faults := load(t, one+"telemetry: {otlp: {sample: 0, endpoint: 'http://[::1]:4318/a/'}}")
	if faults != nil {
		t.Fatal(faults.Text())
	}
	if a, err := c.TelemetryAccess(); err != nil || a.Sample == nil || *a.Sample != 0 || a.Endpoint != "http://[::1]:4318/a" {
		t.Errorf("TelemetryAccess = %+v, %v; want a sample of 0", a, err)
	}
	c, _ = load(t, one+"telemetry: {otlp: }")
	a, err := c.TelemetryAccess()
	if err != nil || a == nil || a.Service != "" || a.Endpoint != "" || a.Interval != 0 || a.Timeout != 0 || a.Sample != nil || a.Trust ||
		a.TLS != nil || len(a.Headers) != 0 || !a.Metrics || !a.Traces {
		t.Errorf("TelemetryAccess = %+v, %v; want nothing but metrics and traces", a, err)
	}
	c, _ = load(t, one)
	if a, err := c.TelemetryAccess(); a != nil || err != nil {
		t.Errorf("TelemetryAccess without telemetry = %v, %v; want nil, nil", a, err)
	}
}

func TestHotKeysAreOnUnlessTheyAreOff(t *testing.T) {
	folder(t)
	for text, want := range map[string]int{"": 100, ", hot_keys: 7": 7, ", hot_keys: 0": -1} {
		c, faults := load(t, one+"routes: [{name: a"+text+"}]")
		if faults != nil {
			t.Fatal(faults.Text())
		}
		g, err := c.Gateway()
		if err != nil || g.Routes[0].HotKeys != want {
			t.Errorf("%q: HotKeys = %d, %v; want %d", text, g.Routes[0].HotKeys, err, want)
		}
	}
}

func TestWarningsOfTelemetry(t *testing.T) {
	folder(t)
	for text, want := range map[string]string{
		"endpoint: 'http://127.0.0.1:4317'":                                    "OTLP over gRPC",
		"endpoint: 'http://otlp.example:4318', headers: {Api-Key: sesame}":     "in the clear",
		"endpoint: 'https://otlp.example:4318', headers: {Api-Key: sesame}":    "",
		"endpoint: 'http://localhost:4318', headers: {Api-Key: sesame}":        "",
		"endpoint: 'http://[::1]:4318', headers_from_file: {A: ../good.token}": "",
	} {
		c, faults := load(t, one+"telemetry: {otlp: {"+text+"}}")
		if faults != nil {
			t.Fatal(faults.Text())
		}
		got := c.Warnings.Text()
		if (got == "") != (want == "") || !strings.Contains(got, want) || strings.Contains(got, "sesame") {
			t.Errorf("%s: warnings %q; want %q", text, got, want)
		}
	}
}

// H41: a hedge needs a second server.
func TestH41_WarningOfHedgesWithOneServer(t *testing.T) {
	folder(t)
	for servers, want := range map[string]string{
		"'http://127.0.0.1:3000'":                          "routes[0].hedge: has no effect: the upstream u has one server",
		"'http://127.0.0.1:3000', 'http://127.0.0.1:3001'": "",
		"{url: 'http://shop.example:3000', resolve: 5s}":   "",
	} {
		c, faults := load(t, "upstreams: [{name: u, servers: ["+servers+"]}]\nroutes: [{name: r, hedge: {after: 200ms}}]")
		if faults != nil {
			t.Fatal(faults.Text())
		}
		if got := c.Warnings.Text(); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: the warnings are %q; want %q", servers, got, want)
		}
		if g := c.Routes[0].Hedge; g == nil || g.Budget != 2 {
			t.Errorf("hedge is %+v; want the default budget of 2", g)
		}
	}
}

// H15: a method whose requests have a body is listed for retries without effect.
func TestH15_WarningOfRetriesOfBodies(t *testing.T) {
	folder(t)
	for text, want := range map[string]string{
		"attempts: 2, methods: [GET, POST]":   "retries no request that has a body",
		"attempts: 2, methods: [GET, DELETE]": "",
		"methods: [POST]":                     "",
		"attempts: 2":                         "",
	} {
		c, faults := load(t, "upstreams: [{name: u, servers: ['http://127.0.0.1:3000'], retry: {"+text+"}}]")
		if faults != nil {
			t.Fatal(faults.Text())
		}
		got := c.Warnings.Text()
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q: the warnings are %q; want %q", text, got, want)
		}
	}
}
