package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-go/weir/lab/result"
)

// markdownOf formats a table as GitHub Markdown.
func markdownOf(g grid) string {
	var b strings.Builder
	if g.Title != "" {
		fmt.Fprintf(&b, "**%s**\n\n", inMarkdown(g.Title))
	}
	row := func(cells []string) {
		for _, cell := range cells {
			b.WriteString("| " + inMarkdown(cell) + " ")
		}
		b.WriteString("|\n")
	}
	row(g.Head)
	for _, right := range g.Right {
		b.WriteString("|---")
		if right {
			b.WriteByte(':')
		}
	}
	b.WriteString("|\n")
	for _, cells := range g.Cells {
		row(cells)
	}
	if g.Note != "" {
		b.WriteString("\n" + inMarkdown(g.Note) + "\n")
	}
	return b.String()
}

// inMarkdown escapes s as literal text on one line.
func inMarkdown(s string) string { return markup.Replace(strings.Join(strings.Fields(s), " ")) }

var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;",
	`\`, `\\`, "|", `\|`, "*", `\*`, "[", `\[`, "]", `\]`, "`", "\\`")

func markdownChecks(s *result.Scenario) string {
	g := grid{Head: []string{"Must hold", "", "Found"}, Right: make([]bool, 3)}
	for _, c := range s.Checks {
		g.Cells = append(g.Cells, []string{c.What, verdict(c), c.Detail})
	}
	return markdownOf(g)
}

// enginesLine lists the versions of the engines and tools of scenarios.
func enginesLine(scenarios ...result.Scenario) string {
	var found []string
	recorded := false
	for _, s := range scenarios {
		recorded = recorded || s.Engines != nil
		for name, version := range s.Engines {
			if text := name + " " + version; !slices.Contains(found, text) {
				found = append(found, text)
			}
		}
	}
	slices.Sort(found)
	switch {
	case !recorded:
		return "Versions of the engines: not recorded."
	case len(found) == 0:
		return "No engines."
	}
	return "Engines: " + strings.Join(found, ", ") + "."
}

// machineLine describes the machine, commit and date of a run.
func machineLine(h result.Head) string {
	m := h.Machine
	line := fmt.Sprintf("%s, %d CPUs, %s %s %s, %s; commit %s, %s",
		m.CPU, m.CPUs, m.OS, m.Kernel, m.Arch, m.Go, h.Commit, h.StartedAt.UTC().Format("2006-01-02"))
	if h.Size != result.Full {
		line += ", at size " + string(h.Size)
	}
	return strings.Join(strings.Fields(strings.TrimPrefix(line, ", ")), " ") + "."
}
