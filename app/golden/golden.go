// Package golden compares what a test made with a file of its package. With -update, the file
// becomes what the test made.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/jobs/bounded"
)

// most is the largest file that is read, in bytes.
const most = 16 << 20

var update = flag.Bool("update", false, "write the files that the tests compare with")

// Updating reports whether the files are written.
func Updating() bool { return *update }

// Compare fails t if got is not what the file contains. The file may have the line ends of
// Windows, as Git makes them there.
func Compare(t testing.TB, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := bounded.File(file, most)
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.ReplaceAll(string(want), "\r\n", "\n"); text != string(got) {
		t.Errorf("got:\n%s\nwant %s:\n%s\nRun with -update if the change is intended.", got, filepath.ToSlash(file), text)
	}
}
