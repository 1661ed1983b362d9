package disk_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/jobs/embedded/internal/disk"
	"github.com/weir-go/weir/jobs/embedded/internal/keep"
	"github.com/weir-go/weir/jobs/embedded/internal/writable"
)

// manyBlocks returns the folder of a store with 10,000 blocks, each with one job.
func manyBlocks(b *testing.B) string {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "jobs")
	ctx := context.Background()
	s, err := embedded.Start(embedded.Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	nc, err := s.Connect()
	if err != nil {
		b.Fatal(err)
	}
	store, err := jobs.Open(ctx, nc, jobs.StoreOptions{Durability: jobs.DurabilityDisk})
	if err != nil {
		b.Fatal(err)
	}
	q, err := jobs.NewQueue[string, string](ctx, store, "q", jobs.QueueOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 10 {
		all := make([]jobs.Submission[string], 1000)
		for n := range all {
			all[n].Input = fmt.Sprint(i, n)
		}
		if _, err := q.SubmitMany(ctx, all); err != nil {
			b.Fatal(err)
		}
	}
	_ = store.Close(ctx)
	nc.Close()
	if err := s.Close(ctx); err != nil {
		b.Fatal(err)
	}
	if n, err := disk.Split(dir, disk.StreamPrefix+"default"); err != nil || n < 10_000 {
		b.Fatalf("Split = %d, %v; want 10,000 blocks", n, err)
	}
	return dir
}

// BenchmarkStart starts a server on 10,000 blocks, with the copy of the files that each
// start makes. The other benchmarks measure parts of that.
func BenchmarkStart(b *testing.B) {
	dir := manyBlocks(b)
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			s, err := embedded.Start(embedded.Options{Dir: dir})
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := s.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("copy", func(b *testing.B) {
		last, err := disk.LastBlocks(dir)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if err := keep.Take(dir, disk.Trees, disk.Kept(last)); err != nil {
				b.Fatal(err)
			}
			if err := keep.Drop(dir); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("usable", func(b *testing.B) {
		for b.Loop() {
			if err := writable.Tree(filepath.Join(dir, "jetstream")); err != nil {
				b.Fatal(err)
			}
		}
	})
	if _, err := os.Stat(dir); err != nil {
		b.Fatal(err)
	}
}
