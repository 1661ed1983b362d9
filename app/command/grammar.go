package command

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A tree is the command line of a Program, while it is parsed.
type tree struct {
	program Program
	chosen  *node // the command to run; nil after --help, --version or a completion
	version bool  // --version was given
}

// A node is one command of the grammar.
type node struct {
	parent  *node         // nil for the program
	value   reflect.Value // pointer to its struct
	command *cobra.Command

	fallback *node // the subcommand that runs if none is named; may be nil
	children []*node
	flags    []flag
	args     []argument
}

// A flag is one flag of a command, as its help shows it.
type flag struct {
	*pflag.Flag
	group       string // heading of its help; "" is the common list
	placeholder string // of its value; "" for a switch
}

// An argument is a positional argument. A slice takes all that are left, and is last.
type argument struct {
	name, help string
	value      reflect.Value
	optional   bool
}

// root returns the program's command line. Tags of the grammar's fields:
//
//	cmd          the field is a subcommand
//	arg          the field is a positional argument; with optional, it may be missing
//	help         the text of the help; ${name} stands for one of Program.Vars
//	name         the name, instead of the field's in lower case with hyphens
//	short        a letter
//	default      the value of a flag; for a subcommand, that it runs if none is named
//	placeholder  the value in the help
//	enum         the values that a flag may have, separated by commas
//	group        a heading in the help for this flag
//
// Fields of embedded structs count as the struct's own. Flags of a command also work after
// its subcommands. A slice collects a flag that is repeated.
func (t *tree) root(e Env) *node {
	n := t.node(t.program.Name, t.program.About, reflect.ValueOf(t.program.Grammar), nil)
	c := n.command
	c.SilenceErrors, c.SilenceUsage = true, true
	c.TraverseChildren = true // flags before a subcommand belong to the command before them
	c.CompletionOptions.HiddenDefaultCmd = false
	c.SetOut(e.Stdout)
	c.SetErr(e.Stderr)
	c.SetArgs(append([]string{}, e.Args...)) // never nil, which would mean os.Args
	c.PersistentFlags().BoolP("help", "h", false, "Show this help.")
	if t.program.Version != "" {
		c.PersistentFlags().BoolVar(&t.version, "version", false, "Print the version.")
	}
	return n
}

// node returns the command with the given name, and those below it.
func (t *tree) node(name, help string, v reflect.Value, parent *node) *node {
	n := &node{parent: parent, value: v}
	n.command = &cobra.Command{
		Use:                        name,
		Short:                      help,
		Args:                       cobra.ArbitraryArgs, // choose checks them
		ValidArgsFunction:          cobra.NoFileCompletions,
		SuggestionsMinimumDistance: 2, // cobra's default, which it sets too late for us
		RunE:                       func(_ *cobra.Command, args []string) error { return t.choose(n, args) },
	}
	n.command.SetFlagErrorFunc(flagError)
	n.command.SetHelpFunc(func(c *cobra.Command, _ []string) { n.writeHelp(c, t.program) })
	n.command.PersistentFlags().SortFlags = false
	t.fields(n, v.Elem())
	return n
}

// fields adds the fields of a struct to n.
func (t *tree) fields(n *node, v reflect.Value) {
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Anonymous {
			continue // its fields are visible too
		}
		field, help := v.FieldByIndex(f.Index), t.expand(f.Tag.Get("help"))
		name := f.Tag.Get("name")
		if name == "" {
			name = kebab(f.Name)
		}
		switch {
		case has(f, "cmd"):
			child := t.node(name, help, field.Addr(), n)
			n.command.AddCommand(child.command)
			n.children = append(n.children, child)
			if has(f, "default") {
				n.fallback = child
			}
		case has(f, "arg"):
			n.args = append(n.args, argument{name, help, field, has(f, "optional")})
		default:
			n.flag(name, help, f, field)
		}
	}
}

// flag adds a flag to n.
func (n *node) flag(name, help string, f reflect.StructField, field reflect.Value) {
	v := &value{field: field}
	if enum := f.Tag.Get("enum"); enum != "" {
		v.enum = strings.Split(enum, ",")
	}
	if text := f.Tag.Get("default"); text != "" {
		if err := v.Set(text); err != nil {
			panic(fmt.Sprintf("command: the default of --%s: %v", name, err))
		}
		help = strings.TrimSuffix(help, ".") + "; " + text + " by default."
	}
	set := n.command.PersistentFlags()
	set.VarP(v, name, f.Tag.Get("short"), help)
	added := flag{Flag: set.Lookup(name), group: f.Tag.Get("group"), placeholder: f.Tag.Get("placeholder")}
	switch {
	case v.isSwitch():
		added.NoOptDefVal, added.placeholder = "true", ""
	case added.placeholder == "":
		panic(fmt.Sprintf("command: --%s has no placeholder", name))
	}
	if complete := v.completion(added.placeholder); complete != nil {
		_ = n.command.RegisterFlagCompletionFunc(name, complete) // fails only for an unknown flag
	}
	n.flags = append(n.flags, added)
}

// choose sets the command to run, if its arguments are right.
func (t *tree) choose(n *node, args []string) error {
	if t.version {
		return nil
	}
	if len(n.children) > 0 {
		switch {
		case len(args) > 0:
			return n.unexpected(args[0])
		case n.fallback == nil:
			return n.expected()
		}
		n = n.fallback
	}
	if err := n.take(args); err != nil {
		return err
	}
	t.chosen = n
	return nil
}

// take stores the positional arguments.
func (n *node) take(args []string) error {
	for _, a := range n.args {
		switch many := a.value.Kind() == reflect.Slice; {
		case len(args) == 0 && !a.optional:
			return fmt.Errorf("expected %q", a.usage())
		case len(args) == 0:
		case many:
			a.value.Set(reflect.ValueOf(args))
			args = nil
		default:
			a.value.SetString(args[0])
			args = args[1:]
		}
	}
	if len(args) > 0 {
		return n.unexpected(args[0])
	}
	return nil
}

// strict makes the commands that cobra adds reject wrong arguments: they would write their
// help to standard output, and succeed.
func (n *node) strict() {
	root := n.command
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(root.Name())
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				_, rest, err := root.Find(args)
				if err != nil || len(rest) > 0 {
					return fmt.Errorf("help: no command %q", strings.Join(args, " "))
				}
				return nil
			}
		case "completion":
			var shells []string
			for _, shell := range c.Commands() {
				shells = append(shells, shell.Name())
			}
			want := "want " + strings.Join(shells, ", ")
			c.Args = cobra.ArbitraryArgs
			c.RunE = func(c *cobra.Command, args []string) error {
				if len(args) == 0 {
					return fmt.Errorf("completion: which shell? %s", want)
				}
				return fmt.Errorf("completion: no shell %q, %s", args[0], want)
			}
		}
	}
}

// run runs the command: its method Run, with the Run and with those of the commands that
// contain it that the method has as parameters.
func (n *node) run(r *Run) error {
	method := n.value.MethodByName("Run") // a constant: with any other name, the linker keeps every method
	in := []reflect.Value{reflect.ValueOf(r)}
	for i := 1; i < method.Type().NumIn(); i++ {
		at := n.parent
		for at.value.Type() != method.Type().In(i) {
			at = at.parent
		}
		in = append(in, at.value)
	}
	err, _ := method.Call(in)[0].Interface().(error)
	return err
}

// expand replaces the variables in a text of the help.
func (t *tree) expand(text string) string {
	return os.Expand(text, func(name string) string {
		v, ok := t.program.Vars[name]
		if !ok {
			panic(fmt.Sprintf("command: the help has the unknown variable %q", name))
		}
		return v
	})
}

func has(f reflect.StructField, tag string) bool {
	_, ok := f.Tag.Lookup(tag)
	return ok
}

// kebab returns a field's name in lower case, with a hyphen before each word.
func kebab(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) && unicode.IsLower(rune(name[i-1])) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
