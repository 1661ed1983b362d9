package report_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-go/weir/lab/report"
)

var look = flag.String("look", "", "a folder for the sample's page and pictures, to look at")

func TestLook(t *testing.T) {
	var page bytes.Buffer
	if err := report.HTML(&page, sample()); err != nil {
		t.Fatal(err)
	}
	pictures := report.Pictures(sample())
	if *look == "" {
		return
	}
	write := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(*look, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("page.html", page.Bytes())
	for _, p := range pictures {
		write(p.Name, p.SVG)
	}
	var text bytes.Buffer
	for _, width := range []int{80, 120} {
		for _, s := range sample().Scenarios {
			report.Scenario(&text, s, report.Style{Width: width})
			text.WriteString("\n\n")
		}
		report.Summary(&text, sample(), report.Style{Width: width})
	}
	write("text.txt", text.Bytes())
}
