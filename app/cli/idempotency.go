package cli

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/app/keysctl"
	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/plain"
)

// adminFlags say where the admin listener of a running proxy is.
type adminFlags struct {
	Admin     string `placeholder:"URL" help:"The admin listener of a running proxy. Default: WEIR_ADMIN, or 127.0.0.1:9090."`
	TokenFile string `placeholder:"FILE" help:"File with the token for the proxy. Default: WEIR_ADMIN_TOKEN_FILE."`
}

// parse returns the address and the token, and records what is wrong with them.
func (c adminFlags) parse(r *command.Run, f *command.Faults) (jobsctl.AdminOptions, error) {
	url, err := jobsctl.ParseAdmin(cmp.Or(c.Admin, r.Getenv("WEIR_ADMIN"), defaultAdmin))
	if err != nil {
		*f = append(*f, fmt.Errorf("--admin: %w", err)) // without the value, which may hold a password
	}
	o := jobsctl.AdminOptions{URL: url}
	return o, r.Await(func() { o.Token = secret("token-file", cmp.Or(c.TokenFile, r.Getenv("WEIR_ADMIN_TOKEN_FILE")), f) })
}

// keysCmd is weir idempotency.
type keysCmd struct {
	adminFlags
	List   keysListCmd   `cmd:"" help:"List calls whose outcome is unknown, the oldest first."`
	Settle keysSettleCmd `cmd:"" help:"Settle such calls, as done or as not done."`
}

// Help is the longer part of weir idempotency --help.
func (keysCmd) Help() string {
	return `Manages calls with an Idempotency-Key of a running proxy. The outcome of a call is unknown if the service broke off or responded with a 5xx, or if the proxy ended while the call ran. On routes with unknown: refuse, requests with its key get 409 until it is settled.

    weir idempotency list
    weir idempotency settle 3f9a12c4 --as done       # it took effect: it never runs again
    weir idempotency settle 3f9a12c4 --as not_done   # it did not: the next request runs it

Exit code: 0 success; 1 no such call, or no response; 2 wrong usage.`
}

// keysListCmd is weir idempotency list.
type keysListCmd struct {
	JSON bool `name:"json" help:"Write a JSON object, with the calls, the counts, and the size of the store."`
}

// Run runs the command.
func (c *keysListCmd) Run(r *command.Run, at *keysCmd) error {
	var f command.Faults
	o, err := at.parse(r, &f)
	if err != nil {
		return err
	}
	if len(f) > 0 {
		return &command.UsageError{Command: "weir idempotency list", Faults: f}
	}
	page, err := keysctl.Fetch(r.Context, o)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return jobsctl.WriteJSON(r.Stdout, page)
	}
	return keysctl.Write(r.Stdout, page, jobsctl.Style{Width: terminal.Width(r.Stdout), Color: terminal.Color(r.Stdout, r.Getenv)})
}

// keysSettleCmd is weir idempotency settle.
type keysSettleCmd struct {
	IDs  []string `arg:"" name:"id" help:"The calls' IDs, or the first ${minid} characters or more of each."`
	As   string   `required:"" placeholder:"VERDICT" help:"done: it took effect, and never runs again. not_done: it did not, and runs with the next request that has its key."`
	Yes  bool     `short:"y" help:"With --as not_done: do not ask for confirmation."`
	JSON bool     `name:"json" help:"Write a JSON object, with an array of what was settled."`
}

// Help is the longer part of weir idempotency settle --help.
func (keysSettleCmd) Help() string {
	return `Look in the service whether the call took effect. A call that is settled as not done by mistake runs twice.`
}

// Run runs the command.
func (c *keysSettleCmd) Run(r *command.Run, at *keysCmd) error {
	var f command.Faults
	o, err := at.parse(r, &f)
	if err != nil {
		return err
	}
	as := keysctl.Verdict(c.As)
	if as != keysctl.Done && as != keysctl.NotDone {
		f = append(f, fmt.Errorf("--as=%s: want done or not_done", c.As))
	}
	if len(f) > 0 {
		return &command.UsageError{Command: "weir idempotency settle", Faults: f}
	}
	page, err := keysctl.Fetch(r.Context, o)
	if err != nil {
		return err
	}
	found, err := keysctl.Pick(page, c.IDs)
	if err != nil {
		return err // none is settled: a typing error must not settle half of them
	}
	if as == keysctl.NotDone && !c.Yes {
		if err := r.Confirm(fmt.Sprintf("Let %d calls run again, which have certainly not taken effect?", len(found)), "Say it with --yes"); err != nil {
			return err
		}
	}
	settled, faults := []keysctl.Settled{}, []error(nil)
	for _, call := range found {
		one, err := keysctl.Settle(r.Context, o, keysctl.Order{ID: call.ID, Settle: as})
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", call.ID[:keysctl.MinID], err))
			continue
		}
		settled = append(settled, one)
		if !c.JSON {
			fmt.Fprintf(r.Stdout, "%s  %s  settled as %s\n", plain.Line(call.ID), plain.Line(call.Call), as)
		}
	}
	if c.JSON {
		faults = append(faults, jobsctl.WriteJSON(r.Stdout, map[string]any{"settled": settled}))
	}
	return errors.Join(faults...)
}
