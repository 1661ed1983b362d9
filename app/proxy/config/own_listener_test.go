package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/proxy/config"
)

// check warns of a server that is a listener of the same proxy, whatever its spelling.
func TestC1_AnUpstreamThatIsAListenerOfTheProxyIsAWarning(t *testing.T) {
	for _, tt := range []struct{ listen, server, loops, want string }{
		{"127.0.0.1:8080", "http://127.0.0.1:8080", "", "is the address of listen[0] of this proxy"},
		{"127.0.0.1:8080", "http://localhost:8080", "", "listen[0]"},
		{"127.0.0.1:8080", "h2c://localhost:8080", "", "listen[0]"},
		{":8080", "http://127.0.0.5:8080", "", "listen[0]"},
		{"0.0.0.0:80", "http://localhost", "", "listen[0]"},
		{"[::1]:8080", "http://[::1]:8080", "", "listen[0]"},
		{"127.0.0.1:8080", "http://127.0.0.1:9191", "", "is the address of admin of this proxy: clients would reach it"},
		{"127.0.0.1:8080", "http://127.0.0.1:9191", "loops: {allow: 2}", "admin"},
		{"127.0.0.1:8080", "http://127.0.0.1:8080", "loops: {allow: 2}", ""},
		{"127.0.0.1:8080", "http://127.0.0.1:8081", "", ""},
		{"127.0.0.1:8080", "http://127.0.0.2:8080", "", ""},
		{":8080", "http://10.0.0.1:8080", "", ""},
	} {
		folder(t)
		write(t, "weir.yaml", fmt.Sprintf("listen:\n  - address: %q\nadmin: {address: 127.0.0.1:9191}\n%s\nupstreams:\n  - name: shop\n    servers: [%q]\n", tt.listen, tt.loops, tt.server))
		c := must(t, config.Source{File: "weir.yaml"})
		text := c.Warnings.Text()
		if tt.want == "" && text != "" || !strings.Contains(text, tt.want) || tt.want != "" && !strings.Contains(text, "upstreams[0].servers[0]") {
			t.Errorf("%+v: the warnings are %q", tt, text)
		}
	}
}
