package disk_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-go/weir/internal/disk"
)

var update = flag.Bool("update", false, "write testdata/v1; only for a format that is not released")

// This version opens a folder that was written by the first one, with and without its
// hint file. T14.
func TestH28_GoldenFolder(t *testing.T) {
	const golden = "testdata/v1"
	fill := func(folder string) {
		s, err := disk.Open(disk.Options{Folder: folder, Bytes: disk.MinBytes})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"kept", "purged", "expired", "tagged"} {
			put(s, key, "body of "+key, "of "+key)
		}
		s.Put(disk.Record{Key: "variants", Variant: "a", Head: []byte("head"), Body: []byte("a"), Expires: 1})
		s.Put(disk.Record{Key: "variants", Variant: "b", Head: []byte("head"), Body: []byte("b")})
		syncAll(t, s, purge(s, "purged", false), purge(s, "expired", true), s.PurgeTags(false, "of tagged"))
		closeStore(t, s)
	}
	if *update {
		if err := os.RemoveAll(golden); err != nil {
			t.Fatal(err)
		}
		fill(golden)
		_ = os.Remove(filepath.Join(golden, "lock"))
	}
	for _, hint := range []bool{true, false} {
		folder := t.TempDir()
		if err := os.CopyFS(folder, os.DirFS(golden)); err != nil {
			t.Fatal(err)
		}
		if !hint {
			if err := os.Remove(filepath.Join(folder, "00000001.hint")); err != nil {
				t.Fatal(err)
			}
		}
		s, err := disk.Open(disk.Options{Folder: folder, Bytes: disk.MinBytes})
		if err != nil {
			t.Fatal(err)
		}
		want(t, s, map[string]string{
			"kept": "body of kept", "purged": "none", "expired": "body of expired*", "tagged": "none", "variants": "b",
		})
		closeStore(t, s)
	}
}
