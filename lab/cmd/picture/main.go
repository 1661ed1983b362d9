// Command picture takes screenshots of pages, for the README and for reviewing the
// console.
//
//	go run ./lab/cmd/picture [--width 1400] [--height 900] [--dark] [--after 5s] URL FILE.png [URL FILE.png ...]
//
// It prints the messages in the browser's console, and fails if there are any.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weir-go/weir/lab/browser"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("picture", flag.ContinueOnError)
	width := flags.Int("width", 1400, "of the window, in pixels")
	height := flags.Int("height", 900, "of the window, in pixels")
	dark := flags.Bool("dark", false, "prefer dark colors")
	after := flags.Duration("after", 5*time.Second, "how long to wait after the page has loaded")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 || flags.NArg()%2 != 0 {
		return errors.New("usage: picture [flags] URL FILE.png [URL FILE.png ...]")
	}
	b, err := browser.Start(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	p, err := b.Open(browser.View{Width: *width, Height: *height, Dark: *dark})
	if err != nil {
		return err
	}
	defer p.Close()
	for rest := flags.Args(); len(rest) > 0; rest = rest[2:] {
		if err := take(ctx, p, *after, rest[0], rest[1]); err != nil {
			return err
		}
	}
	if said := p.Messages(); len(said) > 0 {
		return fmt.Errorf("the browser's console has %q", said)
	}
	return nil
}

// take saves a picture of the page at url in file.
func take(ctx context.Context, p *browser.Page, after time.Duration, url, file string) error {
	if err := p.Goto(url); err != nil {
		return err
	}
	select {
	case <-time.After(after):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	png, err := p.Picture()
	if err != nil {
		return err
	}
	return os.WriteFile(file, png, 0o644)
}
