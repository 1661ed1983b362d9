package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// shown is how many commands the error of a missing one names.
const shown = 5

// expected is the error of a command line without a subcommand.
func (n *node) expected() error {
	var names []string
	for _, c := range n.children {
		names = append(names, fmt.Sprintf("%q", c.command.Name()))
	}
	if len(names) > shown {
		names = append(names[:shown], "...")
	}
	return fmt.Errorf("expected one of %s", strings.Join(names, ", "))
}

// unexpected is the error of an argument that the command does not take.
func (n *node) unexpected(arg string) error {
	return fmt.Errorf("unexpected argument %s%s", arg, didYouMean("", n.command.SuggestionsFor(arg)))
}

// flagError returns an error of pflag in this package's words.
func flagError(c *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if short := e.GetSpecifiedShortnames(); short != "" {
			return fmt.Errorf("unknown flag -%s", e.GetSpecifiedName())
		}
		return fmt.Errorf("unknown flag --%s%s", e.GetSpecifiedName(), didYouMean("--", similarFlags(c, e.GetSpecifiedName())))
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Errorf("--%s: want a value", e.GetFlag().Name)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s=%s: %w", e.GetFlag().Name, e.GetValue(), errors.Unwrap(e))
	}
	return err
}

// similarFlags returns the names of flags that a mistyped one may have meant. cobra
// compares the names of commands, so each flag is one.
func similarFlags(c *cobra.Command, name string) []string {
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return names.SuggestionsFor(name)
}

func didYouMean(prefix string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", prefix+names[0])
}
