package command

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/weir-go/weir/app/terminal"
)

// Columns of the help.
const (
	helpWidth = terminal.DefaultWidth
	maxLeft   = 28 // a longer name has its text on the next line
)

// A row is a name and its explanation.
type row struct{ left, right string }

// writeHelp writes the help of a command. c differs from n.command only for the commands
// that cobra adds.
func (n *node) writeHelp(c *cobra.Command, p Program) {
	w := c.OutOrStdout()
	if c != n.command {
		fmt.Fprintf(w, "Usage: %s [flags]\n\n%s\n", c.CommandPath(), strings.TrimSpace(c.Long))
		return
	}
	fmt.Fprintf(w, "Usage: %s\n\n", n.usage())
	paragraphs(w, c.Short)
	if h, ok := n.value.Interface().(interface{ Help() string }); ok {
		fmt.Fprintln(w)
		paragraphs(w, strings.ReplaceAll(h.Help(), "${command}", c.CommandPath()))
	}
	var arguments []row
	for _, a := range n.args {
		arguments = append(arguments, row{a.usage(), a.help})
	}
	section(w, "Arguments:", arguments)
	own, groups := n.flagRows()
	common := []row{{"-h, --help", "Show this help."}}
	if p.Version != "" {
		common = append(common, row{"    --version", "Print the version."})
	}
	section(w, "Flags:", append(common, own...))
	for _, g := range groups {
		section(w, g.heading, g.rows)
	}
	commands := n.leaves()
	if n.parent == nil { // cobra adds it
		commands = append(commands, row{"completion", "Print the completion script for bash, zsh, fish or powershell."})
	}
	section(w, "Commands:", commands)
	if len(n.children) > 0 {
		fmt.Fprintf(w, "\nRun \"%s <command> --help\" for more about a command.\n", c.CommandPath())
	}
}

// usage returns the command line in short.
func (n *node) usage() string {
	text := n.command.CommandPath()
	if len(n.children) > 0 {
		text += " <command>"
	}
	for _, a := range n.args {
		text += " " + a.usage()
	}
	return text + " [flags]"
}

// usage returns the argument as in the usage of its command.
func (a argument) usage() string {
	text := "<" + a.name + ">"
	if a.value.Kind() == reflect.Slice {
		text += " ..."
	}
	if a.optional {
		text = "[" + text + "]"
	}
	return text
}

// A group is the flags below a heading.
type group struct {
	heading string
	rows    []row
}

// flagRows returns the flags of the command and of those that contain it.
func (n *node) flagRows() (own []row, groups []group) {
	for _, f := range n.allFlags() {
		left := "    --" + f.Name
		if f.Shorthand != "" {
			left = "-" + f.Shorthand + ", --" + f.Name
		}
		if f.placeholder != "" {
			left += "=" + f.placeholder
		}
		switch last := len(groups) - 1; {
		case f.group == "":
			own = append(own, row{left, f.Usage})
		case last >= 0 && groups[last].heading == f.group+":":
			groups[last].rows = append(groups[last].rows, row{left, f.Usage})
		default:
			groups = append(groups, group{f.group + ":", []row{{left, f.Usage}}})
		}
	}
	return own, groups
}

// allFlags returns the flags of n, and then those of the commands that contain it.
func (n *node) allFlags() []flag {
	if n.parent == nil {
		return n.flags
	}
	return append(n.flags[:len(n.flags):len(n.flags)], n.parent.allFlags()...)
}

// leaves returns the commands below n that have no subcommands.
func (n *node) leaves() []row {
	var rows []row
	for _, c := range n.children {
		if len(c.children) == 0 {
			_, name, _ := strings.Cut(c.command.CommandPath(), " ") // without the program
			rows = append(rows, row{name, c.command.Short})
		}
		rows = append(rows, c.leaves()...)
	}
	return rows
}

// section writes rows in two columns below a heading, nothing without rows.
func section(w io.Writer, heading string, rows []row) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", heading)
	left := 0
	for _, r := range rows {
		if n := utf8.RuneCountInString(r.left); n <= maxLeft {
			left = max(left, n)
		}
	}
	for _, r := range rows {
		lines := wrap(r.right, helpWidth-left-6)
		if utf8.RuneCountInString(r.left) > left {
			fmt.Fprintf(w, "  %s\n", r.left)
		} else {
			fmt.Fprintf(w, "  %-*s    %s\n", left, r.left, lines[0])
			lines = lines[1:]
		}
		for _, line := range lines {
			fmt.Fprintf(w, "  %-*s    %s\n", left, "", line)
		}
	}
}

// paragraphs writes a text, wrapped. Indented lines are examples, and stay as they are.
func paragraphs(w io.Writer, text string) {
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if strings.HasPrefix(line, " ") {
			fmt.Fprintln(w, line)
			continue
		}
		for _, part := range wrap(line, helpWidth) {
			fmt.Fprintln(w, part)
		}
	}
}

// wrap splits a text into lines of at most width, longer only for a longer word. It returns
// at least one line.
func wrap(text string, width int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}
