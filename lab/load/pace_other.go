//go:build !linux

package load

import "context"

func newPacer(ctx context.Context) (pacer, error) { return newSleeper(ctx) }
