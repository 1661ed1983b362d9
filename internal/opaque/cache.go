// Package opaque hides a generic cache from the types that contain it.
//
// A package that uses a type compiles all generic types in it anew, field by field: with
// an otter.Cache in a field of weirhttp's types, every package that mentions one of them
// compiled otter again, for seconds. A field of an interface type ends that.
package opaque

import (
	"iter"

	"github.com/maypok86/otter/v2"
)

// A Cache is an [otter.Cache].
type Cache[K comparable, V any] interface {
	GetIfPresent(K) (V, bool)
	GetEntryQuietly(K) (otter.Entry[K, V], bool)
	Set(K, V) (V, bool)
	Compute(K, func(old V, found bool) (V, otter.ComputeOp)) (V, bool)
	Invalidate(K) (V, bool)
	All() iter.Seq2[K, V]
	Keys() iter.Seq[K]
	Values() iter.Seq[V]
	CleanUp()
	SetMaximum(uint64)
	WeightedSize() uint64
}
