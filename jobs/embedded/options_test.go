package embedded_test

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

func TestOptionsThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	for _, row := range []struct {
		o    embedded.Options
		want string
	}{
		{embedded.Options{}, "Dir is required"},
		{embedded.Options{Dir: dir, Durability: jobs.DurabilityMajority}, `Durability "majority"; want "disk" or "process"`},
		{embedded.Options{Dir: dir, Durability: 9}, `Durability "durability(9)"`},
		{embedded.Options{Dir: dir, Listen: "4222"}, `Listen "4222"; want host:port`},
		{embedded.Options{Dir: dir, Listen: "localhost:nats"}, `Listen "localhost:nats"; want host:port`},
		{embedded.Options{Dir: dir, Listen: "localhost:65536"}, "port 65536; want 0 to 65535"},
		{embedded.Options{Dir: dir, Listen: "localhost:-1"}, "port -1; want 0 to 65535"},
		{embedded.Options{Dir: dir, Listen: ":4222"}, `Listen ":4222" without Token; want a host on loopback`},
		{embedded.Options{Dir: dir, Listen: "0.0.0.0:4222"}, "without Token"},
		{embedded.Options{Dir: dir, Listen: "[::]:4222"}, "without Token"},
		{embedded.Options{Dir: dir, Listen: "10.0.0.1:4222"}, "without Token"},
		{embedded.Options{Dir: dir, Listen: "localhost.example:4222"}, "without Token"},
		{embedded.Options{Dir: dir, Token: "$2a$11$abc"}, "want the token itself"},
		{embedded.Options{Dir: dir, MaxBytes: -1}, "MaxBytes -1; want 1048576 to"},
		{embedded.Options{Dir: dir, MaxBytes: 1 << 51}, "MaxBytes 2251799813685248; want"},
	} {
		_, err := embedded.Start(row.o)
		if err == nil || !strings.HasPrefix(err.Error(), "embedded: ") || !strings.Contains(err.Error(), row.want) {
			t.Errorf("Start(%+v) = %v; want an error with %q", row.o, err, row.want)
		}
	}
}

func TestAllThatIsWrongIsSaidAtOnce(t *testing.T) {
	_, err := embedded.Start(embedded.Options{Durability: jobs.DurabilityMajority, Listen: ":1", Token: "", MaxBytes: 1})
	for _, want := range []string{"Dir", "Durability", "Listen", "MaxBytes"} {
		if err == nil || !strings.Contains(err.Error(), "embedded: "+want) {
			t.Errorf("Start = %v; want it to name %s", err, want)
		}
	}
}

func TestLoopbackNeedsNoToken(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "localhost:0", "127.1.2.3:0"} {
		s := start(t, embedded.Options{Dir: t.TempDir(), Listen: listen})
		if !strings.HasPrefix(s.Addr(), "nats://127.") && !strings.HasPrefix(s.Addr(), "nats://[::1]:") {
			t.Errorf("Addr with Listen %q = %q; want one on loopback", listen, s.Addr())
		}
	}
}
