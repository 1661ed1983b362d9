package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/jobs/jobshttp"
)

// weir proxy check accepts exactly the sizes that a start accepts: the bounds are those
// of package jobs.
func TestJ21_SizesOfJobsAreCheckedBeforeTheStart(t *testing.T) {
	for _, setting := range []string{"max_body", "max_result"} {
		for size, ok := range map[int]bool{jobshttp.MaxBody: true, jobshttp.MaxBody + 1: false} {
			file := filepath.Join(t.TempDir(), "weir.yaml")
			text := fmt.Sprintf("upstream: http://127.0.0.1:1\nroutes: [{name: a, async: {%s: %d}}]\njobs: {dir: jobs}\n", setting, size)
			text = strings.Replace(text, "upstream: http://127.0.0.1:1", `upstreams: [{name: u, servers: ["http://127.0.0.1:1"]}]`, 1)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := config.Load(config.Source{File: file})
			if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "29MiB") {
				t.Errorf("%s of %d = %v; want ok %v, or an error with 29MiB", setting, size, err, ok)
			}
		}
	}
}
