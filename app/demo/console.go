package demo

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/weir/console"
)

// A Console is the web console for a Board, on its own listener. Its
// goroutines start in OpenConsole; Close stops them and waits.
type Console struct {
	URL string // of its first page

	console *console.Console
	server  http.Server
	serving sync.WaitGroup
}

// OpenConsole serves b on l, and Close closes l. l must be on loopback because there is no
// token. A demo's keys are not secret, so they are shown.
func OpenConsole(l net.Listener, b *Board) (*Console, error) {
	page, err := console.New(console.Options{
		Title: "weir demo", Source: b, ShowKeys: true,
		Logger: slog.New(slog.DiscardHandler), // users may purge here to see the effect
	})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	c := &Console{URL: "http://" + l.Addr().String() + "/", console: page}
	c.server = http.Server{Handler: page, ReadHeaderTimeout: headerTimeout, ErrorLog: log.New(io.Discard, "", 0)}
	c.serving.Go(func() {
		_ = c.server.Serve(l) // ErrServerClosed, or the page says so
	})
	return c, nil
}

// lastAnswers is how long Close waits for requests in flight.
const lastAnswers = time.Second

// Close ends the console with its streams.
func (c *Console) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), lastAnswers)
	defer cancel()
	_ = c.console.Close(ctx) // otherwise Shutdown returns the same
	err := c.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = c.server.Close()
	}
	c.serving.Wait()
	return err
}
