package oncetest_test

import (
	"context"
	"testing"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/once/oncetest"
)

// Memory and Folder pass the suite. A Memory survives its Claims here, as a Store does.
func TestH45_StoresPassTheSuite(t *testing.T) {
	t.Run("Memory", func(t *testing.T) {
		oncetest.Run(t, 1000, func(testing.TB) oncetest.Backend {
			var m *once.Memory
			return oncetest.Backend{Open: func(bytes int64, keys int) once.Store {
				if m == nil {
					m = once.NewMemory(bytes, keys)
				}
				return m
			}}
		})
	})
	t.Run("Folder", func(t *testing.T) {
		seeds := uint64(0)
		for range histories.Seeds(t, 40, 1000) {
			seeds++
		}
		oncetest.Run(t, seeds, func(t testing.TB) oncetest.Backend {
			dir := t.TempDir()
			var open *once.Folder
			t.Cleanup(func() { _ = open.Close(context.Background()) })
			return oncetest.Backend{Open: func(bytes int64, keys int) once.Store {
				if open != nil {
					_ = open.Close(context.Background())
				}
				var err error
				if open, err = once.OpenFolder(once.FolderOptions{Folder: dir, Bytes: bytes, Keys: keys}); err != nil {
					t.Fatal(err)
				}
				return open
			}}
		})
	})
}
