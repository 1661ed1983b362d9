package terminal

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/weir-go/weir/plain"
)

// every is the interval at which a running step is redrawn.
const every = 200 * time.Millisecond

// A Progress shows the steps of a command as they run. On a terminal the running step has
// one line, which is redrawn and erased at the end; elsewhere every step writes a line when
// it is done. Use its methods from one goroutine.
type Progress struct {
	w     io.Writer
	live  bool
	width int
	step  *step // nil between steps
}

// A step is a running step. On a terminal a goroutine draws it: Start starts the goroutine,
// stop ends it and waits for it.
type step struct {
	name string
	once sync.Once
	quit chan struct{}
	done chan struct{}
}

// NewProgress returns a Progress that writes to w. live is whether w is a terminal, and
// width is its width; 0 means DefaultWidth.
func NewProgress(w io.Writer, live bool, width int) *Progress {
	if width <= 0 {
		width = DefaultWidth
	}
	return &Progress{w: w, live: live, width: width}
}

// Nothing returns a Progress that shows nothing.
func Nothing() *Progress { return NewProgress(io.Discard, false, 0) }

// Start begins a step and ends the previous one. detail returns the progress of the step;
// it is called from another goroutine until Done or Close.
func (p *Progress) Start(name string, detail func() string) {
	p.Close()
	p.step = &step{name: name, quit: make(chan struct{}), done: make(chan struct{})}
	if !p.live {
		close(p.step.done)
		return
	}
	go p.draw(p.step, detail)
}

// Done ends the step and shows its result.
func (p *Progress) Done(result string) {
	if p.step == nil {
		return
	}
	name := p.step.name
	p.Close()
	if !p.live {
		fmt.Fprintf(p.w, "%s: %s\n", name, plain.Line(result))
	}
}

// Close ends the running step, if any, and erases its line.
func (p *Progress) Close() {
	if p.step == nil {
		return
	}
	p.step.once.Do(func() { close(p.step.quit) })
	<-p.step.done
	p.step = nil
}

func (p *Progress) draw(s *step, detail func() string) {
	defer close(s.done)
	defer io.WriteString(p.w, eraseLine) //nolint:errcheck // there is nobody to tell
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		// A line that wraps could not be erased.
		io.WriteString(p.w, eraseLine+clip(plain.Line(s.name+": "+detail()), p.width-1)) //nolint:errcheck // as above
		select {
		case <-s.quit:
			return
		case <-tick.C:
		}
	}
}

// eraseLine moves to the start of the line and clears it.
const eraseLine = "\r\x1b[K"

// clip cuts s to width columns.
func clip(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if width--; width < 1 {
			break
		}
		b.WriteRune(r)
	}
	return b.String() + "…"
}
