package deploytest_test

import (
	"cmp"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// promtool runs Prometheus' own tool, which must succeed. If the tool is not available,
// the test is skipped, or fails if engines are required and promtool is not explicitly
// excluded.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath(cmp.Or(os.Getenv("WEIR_TEST_PROMTOOL"), "promtool"))
	switch {
	case err == nil:
	case os.Getenv("WEIR_TEST_ENGINES") == "required" && !slices.Contains(strings.Split(os.Getenv("WEIR_TEST_WITHOUT"), ","), "promtool"):
		t.Fatalf("WEIR_TEST_ENGINES=required, but there is no promtool: %v", err)
	default:
		t.Skipf("WITHOUT promtool, which Debian has in the package prometheus: %v", err)
	}
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
