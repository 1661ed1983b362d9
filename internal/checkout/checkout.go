// Package checkout determines the commit of a checkout that is being measured,
// because `go run` leaves no revision in the program.
package checkout

import (
	"context"
	"os/exec"
	"strings"
)

// Commit returns the commit of the checkout in the working directory. It appends
// -dirty if tracked files are modified, ignoring those below results, a path
// relative to the root of the checkout. Without a checkout it returns "unknown".
func Commit(ctx context.Context, results string) string {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(head))
	changed, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude,top)"+results).Output()
	if err != nil || len(changed) > 0 {
		name += "-dirty"
	}
	return name
}
