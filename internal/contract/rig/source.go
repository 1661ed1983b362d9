package rig

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/weir-go/weir"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// ErrDown is the error of sources that fail.
var ErrDown = errors.New("the source is down")

// SpringKeys returns n keys.
func SpringKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "k" + strconv.Itoa(i)
	}
	return keys
}

// EntriesOf makes a LoadEntries of a LoadMany.
func EntriesOf[K comparable, V any](many func(context.Context, []K) (map[K]V, error)) func(context.Context, []K, []weir.Previous[V]) (map[K]weir.Entry[V], error) {
	return func(ctx context.Context, keys []K, _ []weir.Previous[V]) (map[K]weir.Entry[V], error) {
		values, err := many(ctx, keys)
		entries := make(map[K]weir.Entry[V])
		for key, v := range values {
			entries[key] = weir.Entry[V]{Value: v}
		}
		return entries, err
	}
}

// Singly makes a LoadMany of load, with an error for each key that failed.
func Singly[K comparable, V any](load func(context.Context, K) (V, error)) func(context.Context, []K) (map[K]V, error) {
	return func(ctx context.Context, keys []K) (map[K]V, error) {
		values, errs := make(map[K]V), make(weir.KeyErrors[K])
		for _, key := range keys {
			if v, err := load(ctx, key); err != nil {
				errs[key] = err
			} else {
				values[key] = v
			}
		}
		return values, errs
	}
}
