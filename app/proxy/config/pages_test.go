package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/proxy/config"
)

// Every YAML block of the guides passes weir check: as a file, or as the part of one that
// it shows. Files that it names need not exist. A block whose first line is a comment
// is a file of another program, and weir.yaml is ours.
func TestYAMLOfTheGuidesPassesCheck(t *testing.T) {
	names, err := filepath.Glob("../../../docs/howto/*.md")
	if err != nil {
		t.Fatal(err)
	}
	names = append(names, "../../../README.md", "../../../docs/overview.md", "../../../docs/sizing.md")
	pages := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pages[filepath.Base(name)] = string(text)
	}
	delete(pages, "deploy-with-helm.md") // values of the chart, which deploy/helm's tests render
	folder(t)
	n := 0
	for page, text := range pages {
		for _, m := range yamlBlock.FindAllStringSubmatchIndex(text, -1) {
			indent, block := text[m[2]:m[3]], text[m[4]:m[5]]
			if first, _, _ := strings.Cut(block, "\n"); strings.HasPrefix(first, "# ") && !strings.Contains(first, "weir.yaml") {
				continue
			}
			for doc := range strings.SplitSeq(dedent(strings.ReplaceAll("\n"+block, "\n"+indent, "\n")), "\n---\n") {
				n++
				if faults := leastFaults(t, dedent(doc)); faults != nil {
					t.Errorf("%s:%d: the block does not pass weir check:\n%s", page, 1+strings.Count(text[:m[0]], "\n"), faults.Text())
				}
			}
		}
	}
	if n < 50 {
		t.Errorf("%d blocks; is this test looking?", n)
	}
}

// dedent removes the indentation of the first line from all lines.
func dedent(block string) string {
	block = strings.Trim(block, "\n") + "\n"
	indent := block[:len(block)-len(strings.TrimLeft(block, " "))]
	return strings.TrimPrefix(strings.ReplaceAll("\n"+block, "\n"+indent, "\n"), "\n")
}

// leastFaults loads the block at each place that it can have in a file, and returns the
// faults at the best one.
func leastFaults(t *testing.T, block string) (least config.Faults) {
	inside := func(head, indent string) string {
		return head + indent + strings.ReplaceAll(strings.TrimRight(block, "\n"), "\n", "\n"+indent) + "\n"
	}
	const app = "upstreams:\n  - name: app\n    servers: [http://127.0.0.1:3000]\n"
	for i, file := range []string{
		block,
		block + app,
		inside(app+"routes:\n  - name: it\n", "    "),
		inside(app+"routes:\n  - name: it\n    cache:\n", "      "),
		inside("upstreams:\n  - name: app\n", "    "),
		inside(app, "    "),
	} {
		if strings.Contains(file, "async:") && !strings.Contains(file, "\njobs:") {
			file += "jobs: {dir: jobs}\n"
		}
		_, faults := load(t, file)
		faults = slices.DeleteFunc(faults, func(f *config.Fault) bool {
			return regexp.MustCompile(`cannot be read: (?:open .*: )?no such file`).MatchString(f.Error())
		})
		if len(faults) == 0 {
			return nil
		}
		if i == 0 || len(faults) < len(least) {
			least = faults
		}
	}
	return least
}
