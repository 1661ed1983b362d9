//go:build !linux

package cpu

import (
	"runtime"
	"time"
)

// A Share needs Linux.
type Share struct{}

// Times needs Linux.
func Times(int) (time.Duration, error) { return 0, elsewhere() }

// Tree needs Linux.
func Tree(int) ([]int, error) { return nil, elsewhere() }

// Split needs Linux.
func Split() (generator, rest []int, err error) { return nil, nil, elsewhere() }

// Pin needs Linux.
func Pin([]int) error { return elsewhere() }

// NewShare needs Linux.
func NewShare(string, float64) (*Share, error) { return nil, elsewhere() }

// Add needs Linux.
func (*Share) Add(int) error { return elsewhere() }

// Remove does nothing.
func (*Share) Remove() error { return nil }

func elsewhere() error { return notApplied("this needs Linux, not %s", runtime.GOOS) }
