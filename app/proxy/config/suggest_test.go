package config_test

import (
	"strings"
	"testing"
)

// A suggestion can be used as it is, and an error about a number names its bound.
func TestH4_SuggestionsAreValid(t *testing.T) {
	folder(t)
	for _, tt := range []struct{ setting, want string }{
		{"drain: {delay: -0}", `"-0" has no unit; did you mean "0s"?`},
		{"server: {idle_timeout: -0}", `"-0" has no unit; it must be 100ms to 24h`},
		{"cache: {memory: 1kb}", `"1kb" must be a size such as 512KiB, 64MiB or a number of bytes; it must be 1MiB to 1TiB`},
		{"cache: {memory: 64mb}", `did you mean "64MiB"?`},
		{"server: {idle_timeout: 9999999999h}", `"9999999999h" is too large: it must be 100ms to 24h`},
		{"server: {idle_timeout: 1000d}", `"1000d" is in days, but the largest unit is h; it must be 100ms to 24h`},
		{"cache: {memory: 99999999999TiB}", `is too large: it must be 1MiB to 1TiB`},
		{"loops: {allow: 99999999999999999999}", `is too large: it must be 1 to 100`},
		{"loops: {allow: 1_000}", `must be a whole number; it must be 1 to 100`},
		{"cache: {dir: \"\"}", `must be the name of a folder, such as dir: /var/lib/weir`},
		{"trusted_proxies: x", `must be a list, not a single value, such as trusted_proxies: [10.0.0.0/8]`},
		{"trusted_proxies: 10.0.0.1", `did you mean "[10.0.0.1]"?`},
	} {
		_, faults := load(t, one+tt.setting)
		if len(faults) != 1 || !strings.Contains(faults.Error(), tt.want) {
			t.Errorf("%s: faults %v; want %s", tt.setting, faults, tt.want)
		}
	}
	if _, faults := load(t, `upstreams: [{name: a, servers: ["http://[fe80::1%25eth0]:80"]}]`); faults != nil {
		t.Errorf("a server with a zone: faults %v", faults)
	}
}
