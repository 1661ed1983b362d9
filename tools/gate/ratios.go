package main

import "context"

// ratios measures Weir beside its peers for a few minutes, and fails if a ratio is worse
// than that of the last accepted run by more than a bound.
func ratios(ctx context.Context) (string, error) {
	_, err := command{}.run(ctx, "go", "run", "./bench/cmd/weir-bench", "check")
	return "", err
}
