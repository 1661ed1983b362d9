package proxy_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy"
	"github.com/weir-go/weir/app/proxy/access"
	conf "github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/app/proxy/listen"
)

// settings reads a configuration with one upstream.
func settings(t *testing.T, rest string) proxy.Settings {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	config(t, file, "http://127.0.0.1:1", rest)
	c, err := conf.Load(conf.Source{File: file})
	if err != nil {
		t.Fatal(err)
	}
	s, err := proxy.Configure(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestH19_DefaultsOfTheConfiguration(t *testing.T) {
	s := settings(t, "")
	want := listen.Config{Address: "127.0.0.1:8080", FastPath: true, Limits: listen.Limits{
		ReadHeader: 10 * time.Second, Idle: time.Minute, Read: 30 * time.Second, Write: 30 * time.Second, MaxHeaderBytes: 64 << 10, MaxStreams: 250,
	}}
	if len(s.Listen) != 1 || !s.Listen[0].Equal(want) {
		t.Errorf("listeners = %+v; want %+v", s.Listen, want)
	}
	if s.Admin.Address != "" || s.DrainDelay != 0 || s.DrainTimeout != 30*time.Second || s.MaxConnections != 0 || s.Level != slog.LevelInfo {
		t.Errorf("settings = %+v; want no admin listener, no delay, 30 s, no bound, info", s)
	}
	wantLog := access.Options{Format: access.JSON, What: access.Problems, Slow: time.Second, PerSecond: 100}
	if !reflect.DeepEqual(s.Access, wantLog) {
		t.Errorf("access log = %+v; want %+v", s.Access, wantLog)
	}
}

func TestConfigureTakesWhatIsSaid(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := settings(t, `
listen: [{address: 127.0.0.1:1, proxy_protocol: true}, {address: 127.0.0.1:2, h2c: true}]
trusted_proxies: [10.0.0.0/8]
admin: {address: "ops.example:9090", token_file: `+token+`, allowed_hosts: [weir.example]}
log: {format: combined, level: debug, access: all, slow: 3s, query: false, lines_per_second: 7}
drain: {delay: 5s, timeout: 1m}
server: {read_header_timeout: 1s, read_timeout: 2s, idle_timeout: 3s, max_header_bytes: 8KiB, max_concurrent_streams: 9, max_connections: 11, fast_path: false}
cache: {memory: 2MiB}
`)
	limits := listen.Limits{Whole: 2 * time.Second, ReadHeader: time.Second, Idle: 3 * time.Second, Read: 30 * time.Second, Write: 30 * time.Second, MaxHeaderBytes: 8 << 10, MaxStreams: 9}
	for i, want := range []listen.Config{
		{Address: "127.0.0.1:1", ProxyProtocol: s.Gateway.TrustedProxies, Limits: limits},
		{Address: "127.0.0.1:2", H2C: true, Limits: limits},
	} {
		if !s.Listen[i].Equal(want) {
			t.Errorf("listener %d = %+v; want %+v", i, s.Listen[i], want)
		}
	}
	if want := (proxy.Admin{Address: "ops.example:9090", Token: "0123456789abcdef", Hosts: []string{"weir.example", "ops.example"}, Console: true}); !reflect.DeepEqual(s.Admin, want) {
		t.Errorf("admin = %+v; want %+v", s.Admin, want)
	}
	if want := (access.Options{Format: access.Combined, What: access.All, Slow: 3 * time.Second, NoQuery: true, PerSecond: 7}); !reflect.DeepEqual(s.Access, want) {
		t.Errorf("access log = %+v; want %+v", s.Access, want)
	}
	if s.DrainDelay != 5*time.Second || s.DrainTimeout != time.Minute || s.MaxConnections != 11 || s.Level != slog.LevelDebug || s.Fixed["cache.memory"] != "2MiB" {
		t.Errorf("settings = %+v", s)
	}
	var b strings.Builder
	proxy.Summary(&b, s, nil)
	if strings.Contains(b.String(), "0123456789abcdef") || !strings.Contains(b.String(), "other machines, too, with the token") {
		t.Errorf("the summary is %s; want it to mention a token but not contain it", b.String())
	}
}
