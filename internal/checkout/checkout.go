// Package checkout tells which commit is measured by what runs from a checkout, where
// `go run` leaves no revision in the program.
package checkout

import (
	"context"
	"os/exec"
	"strings"
)

// Commit names the commit of the checkout in the working directory, with -dirty if
// files are changed that git knows, those below results excepted: a path from the
// root of the checkout. Without a checkout it is "unknown".
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
