package lines_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/app/proxy/lines"
)

// A pipe takes lines while open; otherwise its writer waits.
type pipe struct {
	open chan struct{}
	mu   sync.Mutex
	got  bytes.Buffer // guarded by mu
	err  error        // guarded by mu
}

func (p *pipe) Write(b []byte) (int, error) {
	<-p.open
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return 0, p.err
	}
	return p.got.Write(b)
}

func (p *pipe) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.got.String()
}

// A log that is not read costs its writers MaxWait in all, and memory up to MaxBehind. The
// lines beyond are counted. Once it is read again, the others are written in their order.
func TestH4_ALogThatIsNotReadBlocksNoWriter(t *testing.T) {
	for _, each := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := &pipe{open: make(chan struct{})}
			lost := 0
			w := lines.New(p, each, func(n int, err error) {
				if lost += n; !errors.Is(err, lines.ErrBehind) {
					t.Errorf("lost(%d, %v); want ErrBehind", n, err)
				}
			})
			line := strings.Repeat("x", 1<<10-10)
			const n = 4 << 10
			start := time.Now()
			for i := range n {
				_, _ = fmt.Fprintf(w, "%s%09d\n", line, i)
			}
			if took := time.Since(start); took > 2*lines.MaxWait {
				t.Errorf("each=%v: %d lines took %v; want no more than %v", each, n, took, lines.MaxWait)
			}
			w.Flush(time.Second)
			close(p.open)
			synctest.Wait()
			_, _ = fmt.Fprintf(w, "%s%09d\n", line, n)
			w.Flush(time.Second)
			got := strings.Split(strings.TrimSuffix(p.String(), "\n"), "\n")
			if len(got)+lost != n+1 || lost < n/4 || len(got) < lines.MaxBehind>>10 {
				t.Fatalf("each=%v: %d lines written, %d lost of %d; want MaxBehind written", each, len(got), lost, n+1)
			}
			for i, l := range got {
				if want := fmt.Sprintf("%09d", min(i, n)); i < len(got)-1 && !strings.HasSuffix(l, want) {
					t.Fatalf("line %d ends with %s", i, l[len(l)-9:])
				}
			}
			if !strings.HasSuffix(got[len(got)-1], fmt.Sprintf("%09d", n)) {
				t.Error("the last line is missing")
			}
		})
	}
}

// A reader that is slow slows the writers, and loses nothing while it takes something within
// MaxWait.
func TestH4_ASlowReaderLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got int
		w := lines.New(writer(func(b []byte) (int, error) {
			time.Sleep(lines.MaxWait / 2)
			got += bytes.Count(b, []byte("\n"))
			return len(b), nil
		}), false, func(n int, err error) { t.Errorf("lost(%d, %v)", n, err) })
		line := []byte(strings.Repeat("x", 10<<10) + "\n")
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 500 {
					_, _ = w.Write(line)
				}
			})
		}
		all.Wait()
		w.Flush(time.Minute)
		if got != 2000 {
			t.Errorf("%d lines; want 2000", got)
		}
	})
}

// With each set, a line has been written when Write returns.
func TestH4_EachLineIsWrittenAtOnce(t *testing.T) {
	p := &pipe{open: make(chan struct{})}
	close(p.open)
	w := lines.New(p, true, func(int, error) { t.Error("lost") })
	for i := range 1000 {
		_, _ = fmt.Fprintf(w, "%d\n", i)
		if want := fmt.Sprintf("%d\n", i); !strings.HasSuffix(p.String(), want) {
			t.Fatalf("after Write(%q) the log ends with %q", want, p.String())
		}
	}
}

func TestH4_LinesThatCannotBeWrittenAreCounted(t *testing.T) {
	full := errors.New("disk full")
	lost := 0
	w := lines.New(writer(func(b []byte) (int, error) { return bytes.IndexByte(b, '\n') + 1, full }), true, func(n int, err error) {
		if lost += n; !errors.Is(err, full) {
			t.Errorf("lost = %v; want %v", err, full)
		}
	})
	_, _ = w.Write([]byte("a\nb\nc\n"))
	if lost != 2 {
		t.Errorf("%d lines lost; want 2 of 3", lost)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
