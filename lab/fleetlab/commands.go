package fleetlab

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/lab/internal/resp"
)

// Commands are counts of the commands that clients sent to engines, by name.
type Commands map[string]int64

// CommandsAt queries the engines at addrs for the commands received since they
// started. A script counts as the one command that ran it: commands inside it, which
// the engine counts too, were not sent by a client. The queries of this package and
// the traffic between engines do not count either.
func CommandsAt(ctx context.Context, addrs ...string) (Commands, error) {
	all := make(Commands)
	for _, addr := range addrs {
		v, err := resp.Ask(ctx, addr, "INFO", "commandstats")
		if err != nil {
			return nil, fmt.Errorf("fleetlab: commands of %s: %w", addr, err)
		}
		text, _ := v.(string)
		parseCommands(text, all)
	}
	return all, nil
}

// parseCommands adds the lines of INFO commandstats, such as
//
//	cmdstat_evalsha:calls=12,usec=341,usec_per_call=28.42,rejected_calls=0,failed_calls=0
func parseCommands(text string, all Commands) {
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":calls=")
		if !ok || !sent(name) {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		if n, err := strconv.ParseInt(calls, 10, 64); err == nil {
			all[name] += n
		}
	}
}

// ours are the commands that run scripts, and those that manage a connection. All
// other counted commands were issued by scripts.
var ours = []string{"eval", "evalsha", "evalsha_ro", "eval_ro", "fcall", "fcall_ro", "script", "client", "hello", "auth", "select", "ping", "subscribe", "ssubscribe", "psubscribe", "multi", "exec"}

// sent reports whether a client sends that command.
func sent(name string) bool {
	name, _, _ = strings.Cut(name, "|") // without its subcommand
	return slices.Contains(ours, name)
}

// Sum returns the total count.
func (c Commands) Sum() (n int64) {
	for _, v := range c {
		n += v
	}
	return n
}

// Since returns the counts of c minus those of before.
func (c Commands) Since(before Commands) Commands {
	diff := make(Commands)
	for name, n := range c {
		if n -= before[name]; n != 0 {
			diff[name] = n
		}
	}
	return diff
}

// String lists the commands, such as "evalsha 12, hello 2".
func (c Commands) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%s %d", strings.ReplaceAll(name, "|", " "), c[name]))
	}
	return strings.Join(parts, ", ")
}
