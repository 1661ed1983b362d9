package libraries

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/weir-go/weir/bench/promises"
)

var markdown = flag.String("promises.md", "", "write the table to this `file`")

// kept is the recorded result: the libraries that keep each promise, in the order of
// the table.
var kept = map[string]string{
	"leader-leaves":    "weir, weir/flight, x/sync DoChan, resenje",
	"own-deadline":     "weir, weir/flight, x/sync DoChan, resenje",
	"late-caller":      "weir, weir/flight, x/sync DoChan, resenje, otter",
	"abandoned":        "weir, weir/flight, x/sync Do, resenje, otter, sturdyc",
	"no-zombie":        "weir, weir/flight, x/sync Do, x/sync DoChan, otter",
	"panic":            "weir, weir/flight, sturdyc",
	"goexit":           "weir, weir/flight",
	"no-false-success": "weir, weir/flight, x/sync Do, otter",
	"hung-load":        "weir, weir/flight, resenje",
	"shared-failure":   "weir, weir/flight, x/sync Do, x/sync DoChan, resenje, otter, sturdyc",
	"nested-load":      "weir, weir/flight",
	"struct-keys":      "weir, weir/flight, resenje, otter",
	"delete-absent":    "weir, weir/flight, x/sync Do, x/sync DoChan, resenje, otter",
	"delete-present":   "weir, otter",
	"storm-one-key":    "weir, otter, sturdyc",
	"storm-many-keys":  "weir",
}

// The test fails if weir breaks a promise. The results of the peers are printed and
// compared with the record, but a difference does not fail the test, because a peer
// may improve.
func TestPromises(t *testing.T) {
	names, texts := promises.Promises()
	rows := make([][]promises.Result, len(names))
	keepers := make([][]string, len(names))
	for _, l := range libraries {
		for i, r := range promises.Check(t, l.Library) {
			rows[i] = append(rows[i], r)
			if r.Kept {
				keepers[i] = append(keepers[i], l.Name)
			}
			if strings.HasPrefix(l.Name, "weir") && !r.Kept && !r.Skipped {
				t.Errorf("%s breaks its promise %q: %s", l.Name, r.Text, r.Notes)
			}
		}
	}
	for i, name := range names {
		if got := strings.Join(keepers[i], ", "); got != kept[name] {
			t.Logf("%s: kept by %s; the record has %s", name, got, kept[name])
		}
	}
	table := render(rows, texts)
	t.Log("\n" + table)
	if *markdown != "" && !t.Failed() {
		if err := os.WriteFile(*markdown, []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// render returns the rows as a markdown table.
func render(rows [][]promises.Result, texts []string) string {
	var b strings.Builder
	b.WriteString("| Promise |")
	for _, l := range libraries {
		b.WriteString(" " + l.Name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(libraries)) + "\n")
	for i, row := range rows {
		b.WriteString("| " + texts[i] + " |")
		for _, v := range row {
			b.WriteString(" " + cell(v) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\nHow each is used:\n\n")
	for _, l := range libraries {
		b.WriteString("- " + l.Name + ": " + l.use + "\n")
	}
	return b.String()
}

func cell(r promises.Result) string {
	switch {
	case r.Skipped:
		return "n/a: " + r.Notes
	case r.Kept:
		return "keeps"
	}
	return "**breaks**: " + strings.ReplaceAll(r.Notes, "|", `\|`)
}
