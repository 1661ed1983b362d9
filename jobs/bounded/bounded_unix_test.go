//go:build unix

package bounded

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// endless never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestAll(t *testing.T) {
	if b, err := All(strings.NewReader("1234"), 4); string(b) != "1234" || err != nil {
		t.Errorf(`All = %q, %v; want "1234", nil`, b, err)
	}
	var large *SizeError
	for _, r := range []io.Reader{strings.NewReader("12345"), endless{}} {
		if b, err := All(r, 4); b != nil || !errors.As(err, &large) || large.Most != 4 {
			t.Errorf("All = %d bytes, %v; want none and a SizeError", len(b), err)
		}
	}
}

func TestFileOfEveryKind(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, []byte("1234"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := File(name, 4); string(b) != "1234" || err != nil {
		t.Errorf(`File = %q, %v; want "1234", nil`, b, err)
	}
	var large *SizeError
	for _, endless := range []string{name, "/dev/zero", "/dev/urandom"} {
		if b, err := File(endless, 3); b != nil || !errors.As(err, &large) {
			t.Errorf("File(%s) = %d bytes, %v; want a SizeError", endless, len(b), err)
		}
	}
	if b, err := File("/dev/null", 4); len(b) != 0 || err != nil {
		t.Errorf(`File(/dev/null) = %q, %v; want "", nil`, b, err)
	}
	if _, err := File(dir, 4); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("File of a folder = %v; want EISDIR", err)
	}
	if _, err := File(filepath.Join(dir, "none"), 4); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("File of a missing file = %v; want ErrNotExist", err)
	}
}

func mkfifo(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// write opens a FIFO, which blocks until there is a reader, and writes to it. It
// tries again if the reader has left before the write, which can happen on a busy
// machine.
func write(t *testing.T, name string, text string) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for {
			f, err := os.OpenFile(name, os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
				return
			}
			n, err := f.WriteString(text)
			_ = f.Close()
			if n > 0 || !errors.Is(err, syscall.EPIPE) {
				return // the reader may have stopped at its limit
			}
		}
	}()
	return done
}

func TestFIFOIsReadOnceAndRemembered(t *testing.T) {
	name := mkfifo(t)
	for _, text := range []string{"first", "second"} {
		done := write(t, name, text)
		for string(must(t, name)) != text {
			// the writer has not started yet: this is the previous text
		}
		<-done
		if got := must(t, name); string(got) != text {
			t.Errorf("second File = %q; want %q again", got, text)
		}
	}
	done := write(t, name, strings.Repeat("x", 1<<20))
	var large *SizeError
	for {
		if _, err := File(name, 100); errors.As(err, &large) {
			break
		}
	}
	<-done
}

func must(t *testing.T, name string) []byte {
	t.Helper()
	b, err := File(name, 100)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFIFOThatNobodyWritesTo(t *testing.T) {
	name := mkfifo(t)
	var late *TimeError
	if _, err := file(name, 100, 50*time.Millisecond); !errors.As(err, &late) || !late.Timeout() {
		t.Errorf("without a writer: %v; want a TimeError", err)
	}
	w, err := os.OpenFile(name, os.O_RDWR, 0) // O_RDWR does not block, and counts as a writer
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.WriteString("some"); err != nil {
		t.Fatal(err)
	}
	if b, err := file(name, 100, 50*time.Millisecond); b != nil || !errors.As(err, &late) {
		t.Errorf("with a writer that stays open: %q, %v; want a TimeError", b, err)
	}
}

// A shell passes <(command) as the name of a file descriptor.
func TestFileOfAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	name := "/dev/fd/" + strconv.Itoa(int(r.Fd()))
	for range 3 {
		if b := must(t, name); !bytes.Equal(b, []byte("text")) {
			t.Errorf(`File = %q; want "text"`, b)
		}
	}
}

func TestPipesAreForgotten(t *testing.T) {
	var m memory
	for i := range maxPipes + 10 {
		name := mkfifo(t)
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		m.remember(name, info, []byte{byte(i)})
		m.remember(name, info, []byte{byte(i)})
	}
	if len(m.list) != maxPipes || m.list[0].data[0] != 10 {
		t.Errorf("%d FIFOs are remembered, from number %d; want %d, from number 10", len(m.list), m.list[0].data[0], maxPipes)
	}
}
