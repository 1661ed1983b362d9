package main

import (
	"context"
	"fmt"
	"strings"
)

// fuzzTime is how long `gate fuzz` spends on each target.
const fuzzTime = "20s"

// fuzz runs every fuzz target of every module, one after another, because go test
// accepts only one at a time.
func fuzz(ctx context.Context) (string, error) {
	all, err := patterns()
	if err != nil {
		return "", err
	}
	out, err := command{quiet: true}.run(ctx, "go", append([]string{"test", "-list", "^Fuzz"}, all...)...)
	if err != nil {
		return "", err
	}
	// The names of a package's targets come before the line "ok package time".
	var names []string
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "Fuzz"):
			names = append(names, fields[0])
		case len(fields) > 1 && fields[0] == "ok":
			for _, name := range names {
				meterOf(ctx).does("%s in %s", name, relative(fields[1]))
				_, err := command{}.run(ctx, "go", "test", "-run", "^$", "-fuzz", "^"+name+"$", "-fuzztime", fuzzTime, fields[1])
				if err != nil {
					return "", fmt.Errorf("%s in %s: %w", name, relative(fields[1]), err)
				}
			}
			names = nil
		}
	}
	return "", nil
}
