package figures_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-go/weir/app/figures"
)

func TestNumbers(t *testing.T) {
	type row struct{ got, want string }
	for _, tt := range []row{
		{figures.Count(0), "0"}, {figures.Count(999), "999"}, {figures.Count(1000), "1,000"},
		{figures.Count(-1234567), "-1,234,567"}, {figures.Count(-999), "-999"},
		{figures.Rate(9.94), "9.9"}, {figures.Rate(9.96), "10"}, {figures.Rate(12345.6), "12,346"},
		{figures.Times(0.96), "×1.0"}, {figures.Times(252.4), "×252"},
		{figures.Millis(0), "0 ms"}, {figures.Millis(0.0951), "95 µs"}, {figures.Millis(0.9996), "1.0 ms"},
		{figures.Millis(14.9), "15 ms"}, {figures.Millis(999.6), "1.0 s"}, {figures.Millis(15700), "16 s"}, {figures.Millis(2e6), "2,000 s"},
		{figures.Number(0), "0"}, {figures.Number(2.006), "2.006"}, {figures.Number(16), "16"}, {figures.Number(6.6), "6.6"},
		{figures.Number(3176), "3,176"}, {figures.Number(32669), "32,669"}, {figures.Number(2.00649), "2.006"},
		{figures.Number(0.01234), "0.01234"}, {figures.Number(-1093.4), "-1,093"}, {figures.Number(1234567.8), "1,234,568"},
		{figures.Bar(0, 10), ""}, {figures.Bar(0.0001, 10), "▏"}, {figures.Bar(0.5, 3), "█▌"}, {figures.Bar(1, 3), "███"},
		{figures.Pad("ä", 3), "  ä"}, {figures.Pad("ä", -3), "ä  "}, {figures.Pad("long", 2), "long"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q; want %q", tt.got, tt.want)
		}
	}
}

func lines(rows [][]string, right []bool, width int) string {
	var b strings.Builder
	for _, row := range figures.Columns(rows, right, width) {
		for _, line := range row {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func TestColumns(t *testing.T) {
	rows := [][]string{{"what", "n"}, {"a name of five words", "12"}, {"b", "1,234"}}
	right := []bool{false, true}
	for _, tt := range []struct {
		name  string
		width int
		want  string
	}{
		{"free width goes between, but not too much", 80, "what                       n\na name of five words      12\nb                      1,234\n"},
		{"just fits", 26, "what                     n\na name of five words    12\nb                    1,234\n"},
		{"words are wrapped, numbers are not", 18, "what             n\na name of       12\nfive words\nb            1,234\n"},
		{"no way", 5, "what           n\na name of     12\nfive words\nb          1,234\n"},
	} {
		if got := lines(rows, right, tt.width); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
	if got := figures.Columns([][]string{{}, nil}, nil, 80); len(got) != 2 {
		t.Errorf("rows without cells: %d; want 2 rows", len(got))
	}
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		s     string
		width int
		want  []string
	}{
		{"", 5, []string{""}},
		{"one two  three", 7, []string{"one two", "three"}},
		{"a incomprehensible b", 6, []string{"a", "incomp", "rehens", "ible b"}},
		{"ääää", 3, []string{"äää", "ä"}},
		{"ab", 0, []string{"a", "b"}},
	} {
		got := figures.Wrap(tt.s, tt.width)
		if !slices.Equal(got, tt.want) {
			t.Errorf("Wrap(%q, %d) = %q; want %q", tt.s, tt.width, got, tt.want)
		}
		for _, line := range got {
			if utf8.RuneCountInString(line) > max(tt.width, 1) {
				t.Errorf("Wrap(%q, %d): %q is too long", tt.s, tt.width, line)
			}
		}
	}
}
