package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/plain"
)

// errDone ends Follow after the one overview that was wanted.
var errDone = errors.New("done")

// Once returns the overview as it is now.
func Once(ctx context.Context, o Options) (Overview, error) {
	var m Model
	err := Follow(ctx, o, func(h *console.Hello) error { m.Hello(h); return errDone }, func(*console.Tick) error { return nil })
	if !errors.Is(err, errDone) {
		return Overview{}, err
	}
	return m.Overview(), nil
}

// Plain writes an overview each interval: as text, or with asJSON as one line of JSON. A
// lost connection is retried and reported to problems.
func Plain(ctx context.Context, o Options, interval time.Duration, w, problems io.Writer, asJSON bool) error {
	f := newFeed(ctx, o)
	defer f.stop()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-f.fatal:
			return err
		case err := <-f.lost:
			fmt.Fprintln(problems, "weir top: "+plain.Line(err.Error())+"; retrying")
			continue
		case <-f.first:
			f.first = nil // the others come at the interval
		case <-tick.C:
		}
		view, ok := f.overview()
		if !ok {
			continue
		}
		var err error
		if asJSON {
			err = WriteJSON(w, view)
		} else {
			err = Write(w, view, Style{})
			fmt.Fprintln(w)
		}
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
}

// WriteJSON writes the overview as one line of JSON.
func WriteJSON(w io.Writer, o Overview) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = w.Write(append(plain.JSON(b), '\n'))
	return err
}

// Live draws the overview in full-screen mode until ctx ends or the user quits. It
// restores the terminal in any case.
func Live(ctx context.Context, o Options, interval time.Duration, out *os.File, in io.Reader, color bool) error {
	screen, err := OpenScreen(out, in)
	if err != nil {
		return err
	}
	defer screen.Close()
	f := newFeed(ctx, o)
	defer f.stop()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var lost error
	paused := false
	draw := func() error {
		width, height := screen.Size()
		s := Style{Width: width, Height: height - 1, Color: color, Note: "q quits, space pauses"}
		if paused {
			s.Note = "paused, space continues"
		}
		view, ok := f.overview()
		lines := []string{"connecting to " + plain.Line(o.URL) + " …"}
		if ok {
			lines = s.Lines(view)
		}
		if lost != nil {
			note := s.clip(plain.Line("NO CONNECTION, retrying: " + lost.Error()))
			lines = append([]string{s.paint(terminal.Red, note)}, lines...)
			lines = lines[:min(len(lines), height)]
		}
		return screen.Draw(lines)
	}
	for {
		if err := draw(); err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-f.fatal:
			return err
		case lost = <-f.lost:
		case <-f.first:
			f.first = nil
		case <-screen.Resized:
		case key := <-screen.Keys:
			switch key {
			case 'q', 'Q', 3, 4: // Ctrl-C, Ctrl-D
				return nil
			case ' ':
				paused = !paused
				f.pause(paused)
			}
		case <-tick.C:
			if f.connected() {
				lost = nil
			}
		}
	}
}

// A feed follows the console, and reconnects when the connection is lost.
type feed struct {
	fatal chan error    // receives the error that ends the feed
	lost  chan error    // receives why the connection was lost
	first chan struct{} // closed after the first data
	stop  func()        // ends it and waits

	mu     sync.Mutex
	model  Model // guarded by mu
	have   bool  // guarded by mu; model has data
	live   bool  // guarded by mu; connected
	paused bool  // guarded by mu; the model does not change
}

// The pauses between attempts to connect.
const (
	shortestPause = time.Second
	longestPause  = 10 * time.Second
)

func newFeed(ctx context.Context, o Options) *feed {
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{fatal: make(chan error, 1), lost: make(chan error), first: make(chan struct{})}
	done := make(chan struct{})
	f.stop = func() { cancel(); <-done }
	there := f.first // the field is set to nil once it was received
	first := sync.OnceFunc(func() { close(there) })
	go func() {
		defer close(done)
		f.run(ctx, o, first)
	}()
	return f
}

// run follows the console until ctx ends.
func (f *feed) run(ctx context.Context, o Options, first func()) {
	pause := shortestPause
	for {
		err := Follow(ctx, o, func(h *console.Hello) error {
			f.set(func() { f.model.Hello(h); f.have = true })
			first()
			pause = shortestPause
			return nil
		}, func(t *console.Tick) error {
			f.set(func() { f.model.Tick(t) })
			return nil
		})
		f.mu.Lock()
		f.live = false
		f.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		if _, ok := errors.AsType[*FatalError](err); ok {
			f.fatal <- err
			return
		}
		select {
		case f.lost <- err:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, longestPause)
	}
}

func (f *feed) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live = true
	if !f.paused || !f.have {
		change()
	}
}

func (f *feed) pause(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused = on
}

func (f *feed) connected() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live
}

// overview returns the current state, and false before there is one.
func (f *feed) overview() (Overview, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.have {
		return Overview{}, false
	}
	return f.model.Overview(), true
}
