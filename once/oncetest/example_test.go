package oncetest_test

import (
	"testing"

	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/once/oncetest"
)

// A test of a store runs the suite, here with 100 histories. Each part of it begins with an
// empty store.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestStore(t *testing.T)
		oncetest.Run(t, 100, func(testing.TB) oncetest.Backend {
			var store once.Store
			return oncetest.Backend{Open: func(bytes int64, keys int) once.Store {
				if store == nil {
					store = once.NewMemory(bytes, keys)
				}
				return store
			}}
		})
	}
}
