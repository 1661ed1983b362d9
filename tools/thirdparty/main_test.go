package main

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/tools/released"
)

func TestCompareNamesTheLines(t *testing.T) {
	rows := []row{{"example.com/a", []string{"MIT"}, []string{".", "app"}}}
	have := []byte(markdown(rows))
	if err := compare(have, have); err != nil {
		t.Errorf("compare of equal tables = %v; want nil", err)
	}
	rows = append(rows, row{"example.com/b", []string{"Apache-2.0", "MIT"}, []string{"app"}})
	for _, err := range []error{compare(have, []byte(markdown(rows))), compare(nil, []byte(markdown(rows)))} {
		if err == nil || !strings.Contains(err.Error(), "+| example.com/b | Apache-2.0, MIT | app |") {
			t.Errorf("compare = %v; want an error with the new line", err)
		}
	}
	if err := compare([]byte(markdown(rows)), have); err == nil || !strings.Contains(err.Error(), "-| example.com/b |") {
		t.Errorf("compare = %v; want an error with the old line", err)
	}
}

// The vendored library of the console is in the table.
func TestVendoredLicences(t *testing.T) {
	t.Chdir("../..")
	rows := 0
	for _, m := range released.Modules {
		found, err := vendoredLicences(m)
		if err != nil {
			t.Fatal(err)
		}
		rows += len(found)
	}
	if rows == 0 {
		t.Error("no vendored licence; want that of uPlot")
	}
}
