package host_test

import (
	"runtime"
	"testing"

	"github.com/weir-go/weir/internal/host"
)

func TestHostHasAName(t *testing.T) {
	if host.CPU() == "" {
		t.Error(`CPU() = ""; want a name`)
	}
	if k := host.Kernel(); runtime.GOOS == "linux" && k == "" {
		t.Error(`Kernel() = ""; want a release`)
	}
}
