package cli

import (
	"errors"
	"os"
	"time"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/app/top"
)

// topSpan is the range of --interval.
var topSpan = command.Span[time.Duration]{Least: time.Second, Most: time.Hour}

// defaultAdmin is where a proxy is looked for by default.
const defaultAdmin = "127.0.0.1:9090"

// topCmd is weir top.
type topCmd struct {
	adminFlags
	Interval string `default:"2s" placeholder:"TIME" help:"Time between two refreshes (${intervals})."`
	Once     bool   `help:"Write the overview once, as text."`
	JSON     bool   `name:"json" help:"Write JSON, one line for each refresh."`
}

// Help is the longer part of weir top --help.
func (topCmd) Help() string {
	return `Shows the overview of the console in the terminal: what needs attention, what clients received, the upstream servers, and a line for each route. Rates are means of the last 10 seconds, the same as in the console, so the proxy needs admin.console, which is on by default.

    weir top
    weir top --admin gateway:9090 --token-file admin.token
    weir top --once
    weir top --json | jq -c '[.at, .total.errors_share]'

Keys: q or Ctrl-C quits, space pauses. Without a terminal it writes text, an overview for each refresh.

Exit code: 0 success; 1 no response, or a wrong token; 2 wrong usage.`
}

// Run runs the command.
func (c *topCmd) Run(r *command.Run) error {
	var f command.Faults
	interval := f.Duration("interval", c.Interval, topSpan)
	at, err := c.parse(r, &f)
	if err != nil {
		return err
	}
	o := top.Options{URL: at.URL, Token: at.Token}
	if len(f) > 0 {
		return &command.UsageError{Command: "weir top", Faults: f}
	}
	if c.Once {
		view, err := top.Once(r.Context, o)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return top.WriteJSON(r.Stdout, view)
		}
		return top.Write(r.Stdout, view, top.Style{Width: terminal.Width(r.Stdout), Color: terminal.Color(r.Stdout, r.Getenv)})
	}
	if out, ok := r.Stdout.(*os.File); ok && !c.JSON && terminal.Is(out, r.Getenv) {
		err = top.Live(r.Context, o, interval, out, r.Stdin, terminal.Color(out, r.Getenv))
	} else {
		err = top.Plain(r.Context, o, interval, r.Stdout, r.Stderr, c.JSON)
	}
	if errors.Is(err, command.ErrInterrupted) {
		return nil // that is how it ends
	}
	return err
}
