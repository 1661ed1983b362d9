package command

import (
	"strings"

	"github.com/alecthomas/kong"
)

// helpText returns a flag's help with its default.
func helpText(v *kong.Value) string {
	text := kong.DefaultHelpValueFormatter(v)
	if v.Default == "" {
		return text
	}
	return strings.TrimSuffix(text, ".") + "; " + v.Default + " by default."
}
