// Command warm measures how a gateway starts with a folder for its cache (H28), and
// without one:
//
//	go run ./lab/cmd/warm [--objects 100000] [--size 1000] [--program FILE] [--out FILE]
//
// It fills the folder through weir proxy, purges some objects, and kills the proxy with
// SIGKILL while it writes more. Then it starts the proxy again and requests the objects
// once: first one alone, then the rest from 16 clients. It prints a table, and exits
// with 1 if a response was wrong or purged, or if the origin was called for an object
// that was stored.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/weir-go/weir/internal/checkout"
	"github.com/weir-go/weir/internal/host"
	"github.com/weir-go/weir/lab/internal/proc"
)

func main() {
	proc.DieWithParent()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "warm:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	objects := flag.Int("objects", 100_000, "number of objects")
	size := flag.Int("size", 1000, "bytes of each")
	program := flag.String("program", "", "weir, instead of one that is built")
	to := flag.String("out", "", "also write the table to this file")
	flag.Parse()
	folder, err := os.MkdirTemp("", "weir-warm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if *program == "" {
		*program = filepath.Join(folder, "weir")
		build := exec.CommandContext(ctx, "go", "build", "-o", *program, "github.com/weir-go/weir/app/cmd/weir")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build weir: %w", err)
		}
	}
	t := &trial{objects: *objects, size: *size, program: *program, folder: folder}
	if err := t.run(ctx); err != nil {
		return err
	}
	out := io.Writer(os.Stdout)
	if *to != "" {
		f, err := os.Create(*to)
		if err != nil {
			return err
		}
		defer f.Close()
		out = io.MultiWriter(out, f)
	}
	fmt.Fprintf(out, "%s, commit %s, %s, %d processors, %s\n\n", time.Now().UTC().Format("2006-01-02"),
		checkout.Commit(ctx, "lab/results"), host.CPU(), runtime.NumCPU(), runtime.Version())
	t.print(out)
	return errors.Join(t.faults...)
}
