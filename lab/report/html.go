package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"unicode"

	"github.com/weir-go/weir/app/figures"
	"github.com/weir-go/weir/lab/report/chart"
	"github.com/weir-go/weir/lab/result"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Charts in the page are drawn for half of its width, and scaled up if a chart gets
// the full width. This keeps the text readable on a phone.
const chartWidth = 430.0

// mostRows is the number of rows above which a table of medians is folded.
const mostRows = 16

// A page is the data of the template.
type page struct {
	Style     template.CSS
	Head      result.Head
	Machine   string
	Engines   string
	Small     bool
	Overview  grid
	Links     []link
	Headlines template.HTML
	Verdict   string
	Held      bool
	Sections  []section
}

type link struct{ Anchor, Name string }

type section struct {
	*result.Scenario
	Anchor     string
	Took       string
	Held       bool
	Summary    string // "3 of 3 checks hold"
	Count      string // "12 measurements"
	Rows       grid
	Figures    []shown
	Medians    grid
	Long       bool // true if there are so many medians that curves show them better
	Remarks    []string
	Tables     []grid
	Everything grid
}

// shown is a figure of the page.
type shown struct {
	Title, Note string
	Wide        bool // more than one panel
	Legend      []shownKey
	Panels      []shownPanel
}

type shownKey struct {
	Name   string
	Swatch template.HTML
}

type shownPanel struct {
	Title string
	SVG   template.HTML
}

// HTML writes a run as one self-contained page without scripts.
func HTML(w io.Writer, run result.Run) error {
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, pageOf(&run)); err != nil {
		return fmt.Errorf("report: execute the template: %w", err)
	}
	if _, err := w.Write(bytes.Map(printable, b.Bytes())); err != nil {
		return fmt.Errorf("report: write the page: %w", err)
	}
	return nil
}

// printable drops control characters, which can come from a server and are not
// allowed in a page.
func printable(r rune) rune {
	if unicode.IsControl(r) && r != '\n' {
		return -1
	}
	return r
}

func pageOf(run *result.Run) page {
	light, dark := chart.Variables()
	style := ":root{" + light + "}\n@media (prefers-color-scheme:dark){:root{" + dark + "}}\n@media print{:root{" + light + "}}\n" +
		pageStyle + chart.Rules()
	p := page{
		Style: template.CSS(style), Head: run.Head, Machine: machineLine(run.Head), Engines: enginesLine(run.Scenarios...),
		Small: run.Head.Size == result.Small, Overview: overview(run, true), Held: true,
	}
	if c, ok := headlines(run); ok {
		p.Headlines = template.HTML(chart.Inline(c, chartWidth))
	}
	held, all := 0, 0
	palette := paletteOf(run)
	for i := range run.Scenarios {
		s := &run.Scenarios[i]
		p.Sections = append(p.Sections, sectionOf(s, palette))
		p.Links = append(p.Links, link{"s-" + slug(s.Name), s.Name})
		held, all, p.Held = held+checksHeld(s), all+len(s.Checks), p.Held && s.Held()
	}
	p.Verdict = fmt.Sprintf("%d of %d checks hold", held, all)
	return p
}

func sectionOf(s *result.Scenario, palette *chart.Palette) section {
	out := section{
		Scenario: s, Anchor: "s-" + slug(s.Name), Took: figures.Millis(1000 * s.ElapsedS), Held: s.Held(),
		Summary: fmt.Sprintf("%d of %d checks hold", checksHeld(s), len(s.Checks)),
		Count:   fmt.Sprintf("%d measurements", len(s.Measurements)),
		Rows:    published(s), Remarks: remarks(s), Medians: medians(s).grouped(), Everything: everything(s),
	}
	out.Long = len(out.Medians.Cells) > mostRows
	if s.Error != "" {
		out.Summary = "did not finish"
	}
	if len(s.Measurements) == 1 {
		out.Count = "1 measurement"
	}
	for _, t := range s.Tables {
		out.Tables = append(out.Tables, ownTable(t))
	}
	for _, f := range figuresOf(s, palette) {
		out.Figures = append(out.Figures, f.shown())
	}
	return out
}

func (f *figure) shown() shown {
	out := shown{Title: f.title, Note: f.note, Wide: len(f.panels) > 1}
	for _, k := range f.legend(chartWidth) {
		out.Legend = append(out.Legend, shownKey{k.Name, template.HTML(chart.Swatch(k.Class))})
	}
	for _, p := range f.panels {
		out.Panels = append(out.Panels, shownPanel{p.title, template.HTML(chart.Inline(p.chart, chartWidth))})
	}
	return out
}
