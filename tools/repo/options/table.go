// Package options reads the table of options in docs/reference/options.md. Its test compares
// the table with what the packages do. It is a separate package because it needs them
// compiled, unlike the other rules.
package options

import "regexp"

// Page has the table, which says what zero and negative mean for each option that is a
// number or a duration.
const Page = "docs/reference/options.md"

// A Row is a row of the table.
type Row struct {
	Option   string // package.Struct.Field
	Zero     string
	Negative string
}

var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.+?) \\| (.+?) \\|$")

// Rows returns the rows of the table in page.
func Rows(page []byte) (rows []Row) {
	for _, m := range row.FindAllSubmatch(page, -1) {
		rows = append(rows, Row{string(m[1]), string(m[2]), string(m[3])})
	}
	return rows
}
