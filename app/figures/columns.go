package figures

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxGap is the maximum gap between columns: wider gaps make a row hard to follow.
const MaxGap = 3

// minColumn is the minimum width of a column of words. At half of it nearly every word
// would be broken.
const minColumn = 10

// Columns lays out rows of cells in columns and returns one or more lines for each row.
// Columns for which right is true are right-aligned; columns beyond the end of right are
// not. Free width goes between the columns. If the width is too small, columns of words are
// wrapped; right-aligned columns, which hold numbers, never are. The result is wider than
// width only if it cannot fit.
func Columns(rows [][]string, right []bool, width int) [][]string {
	widths := columnWidths(rows)
	if len(widths) == 0 {
		return make([][]string, len(rows))
	}
	atRight := func(c int) bool { return c < len(right) && right[c] }
	sum := shrink(widths, atRight, width-(len(widths)-1))
	gap := 1
	if n := len(widths) - 1; n > 0 {
		gap = min(max(1, (width-sum)/n), MaxGap)
	}
	out := make([][]string, len(rows))
	for i, row := range rows {
		out[i] = rowLines(row, widths, atRight, gap)
	}
	return out
}

func columnWidths(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		for c, cell := range row {
			if c == len(widths) {
				widths = append(widths, 0)
			}
			widths[c] = max(widths[c], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// shrink narrows the widest column of words until the sum of all widths, which it returns,
// is at most room, or no column can be narrower.
func shrink(widths []int, atRight func(int) bool, room int) (sum int) {
	for _, w := range widths {
		sum += w
	}
	for ; sum > room; sum-- {
		widest := -1
		for c, w := range widths {
			if !atRight(c) && w > minColumn && (widest < 0 || w > widths[widest]) {
				widest = c
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return sum
}

func rowLines(row []string, widths []int, atRight func(int) bool, gap int) []string {
	cells, most := make([][]string, len(row)), 1
	for c, cell := range row {
		cells[c] = []string{cell}
		if !atRight(c) {
			cells[c] = Wrap(cell, widths[c])
		}
		most = max(most, len(cells[c]))
	}
	lines := make([]string, most)
	for n := range lines {
		var b strings.Builder
		for c := range row {
			text := ""
			if n < len(cells[c]) {
				text = cells[c][n]
			}
			if c > 0 {
				b.WriteString(strings.Repeat(" ", gap))
			}
			if atRight(c) {
				b.WriteString(Pad(text, widths[c]))
			} else {
				b.WriteString(Pad(text, -widths[c]))
			}
		}
		lines[n] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// Wrap breaks s between words into lines of at most width columns. A longer word is broken
// too. There is always at least one line.
func Wrap(s string, width int) []string {
	width = max(width, 1)
	lines := []string{""}
	for _, word := range strings.Fields(s) {
		last := lines[len(lines)-1]
		room := width - utf8.RuneCountInString(last)
		if last != "" {
			room--
		}
		letters := []rune(word)
		switch {
		case len(letters) <= room && last == "":
			lines[len(lines)-1] = word
			continue
		case len(letters) <= room:
			lines[len(lines)-1] = last + " " + word
			continue
		case last == "":
			lines = lines[:len(lines)-1]
		}
		for part := range slices.Chunk(letters, width) {
			lines = append(lines, string(part))
		}
	}
	return lines
}
