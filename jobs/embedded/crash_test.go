package embedded_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// With crashDir in its environment, the test binary is a program with an embedded
// server and nothing else. It copies the server's log to standard error. Each line on
// its standard input is either a limit in bytes for the growth of its files, "close",
// "descriptors" (it takes all that the process has), or "release". The program ends when its standard input ends.
const (
	crashDir   = "WEIR_EMBEDDED_DIR"
	crashLevel = "WEIR_EMBEDDED_LEVEL"
)

func TestMain(m *testing.M) {
	if os.Getenv(tryDir) != "" {
		os.Exit(try(os.Getenv(tryDir)))
	}
	if os.Getenv(crashDir) == "" {
		code := m.Run()
		if wardRoot != "" {
			_ = os.RemoveAll(wardRoot) // best effort: it is in a temporary folder
		}
		os.Exit(code)
	}
	var level jobs.Durability
	if err := level.UnmarshalText([]byte(os.Getenv(crashLevel))); err != nil {
		panic(err)
	}
	s, err := embedded.Start(embedded.Options{
		Dir: os.Getenv(crashDir), Durability: level, Listen: "127.0.0.1:0",
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Addr())
	var line string
	for {
		if _, err := fmt.Scanln(&line); err != nil {
			os.Exit(1)
		}
		fmt.Println(obey(s, line))
	}
}

func obey(s *embedded.Server, line string) string {
	switch line {
	case "descriptors":
		return holdAll()
	case "release":
		return releaseAll()
	}
	if line == "close" {
		if err := s.Close(context.Background()); err != nil {
			return err.Error()
		}
		for end := time.Now().Add(patience); time.Now().Before(end); { // some goroutines are still returning
			if len(serverGoroutines()) == 0 {
				return "closed"
			}
			<-time.After(10 * time.Millisecond)
		}
		return "closed, but goroutines are left:\n" + serverGoroutines()[0]
	}
	n, err := strconv.ParseUint(line, 10, 64)
	if err == nil {
		err = limitFiles(n)
	}
	if err != nil {
		return err.Error()
	}
	return "limited"
}

// A program is a process with an embedded server.
type program struct {
	cmd  *exec.Cmd
	in   io.Writer
	out  *bufio.Reader
	addr string
	said journal
}

func startProgram(t *testing.T, dir string, level jobs.Durability) *program {
	t.Helper()
	p := &program{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), crashDir+"="+dir, crashLevel+"="+level.String())
	p.cmd.Stderr = &p.said
	in, err := p.cmd.StdinPipe() // closed when this process ends, which ends the program
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended already
		_ = p.cmd.Wait()
	})
	p.in, p.out = in, bufio.NewReader(out)
	p.addr = p.answer(t)
	return p
}

// tell sends a line, and fails the test unless the program replies with want.
func (p *program) tell(t *testing.T, line, want string) {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		t.Fatal(err)
	}
	if got := p.answer(t); got != want {
		t.Fatalf("the program replies %q to %q; want %q", got, line, want)
	}
}

// answer returns the next line that the program prints.
func (p *program) answer(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the program prints %q, %v; want a line; its log so far:\n%s", line, err, p.said.text())
	}
	return strings.TrimSpace(line)
}

// publishUntilCut publishes numbers, singly and in atomic batches, until the server
// is gone. It returns the acknowledged ones, and signals first when one has been
// acknowledged.
func publishUntilCut(addr string, publisher int, first chan<- int) (acked []string, err error) {
	nc, err := nats.Connect(addr, nats.NoReconnect())
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	for i := 0; ; i++ {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		id := fmt.Sprintf("p%d-%d", publisher, i)
		if publisher%2 == 0 {
			_, err = js.Publish(ctx, "t."+id, nil)
		} else {
			err = publishBatch(ctx, nc, id, 3)
		}
		cancel()
		if err != nil {
			return acked, nil
		}
		if acked = append(acked, id); len(acked) == 1 {
			first <- publisher
		}
	}
}

func TestKilledProcessLosesNothingAcknowledged(t *testing.T) {
	for _, level := range levels {
		t.Run(level.String(), func(t *testing.T) {
			dir := t.TempDir()
			program := startProgram(t, dir, level)
			nc, err := nats.Connect(program.addr)
			if err != nil {
				t.Fatal(err)
			}
			js := newJetStream(t, nc)
			makeStream(t, js)

			const publishers = 4
			acked := make([][]string, publishers)
			errs := make([]error, publishers)
			var wg sync.WaitGroup
			first := make(chan int, publishers)
			for p := range publishers {
				wg.Go(func() { acked[p], errs[p] = publishUntilCut(program.addr, p, first) })
			}
			eventually(t, "each publisher has an acknowledged message", func() bool { return len(first) == publishers })
			eventually(t, "300 messages are stored", func() bool { return messages(t, js) > 300 })
			if err := program.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = program.cmd.Wait() // it was killed; after Wait it no longer locks the folder
			wg.Wait()
			nc.Close()
			wantAllThere(t, connect(t, start(t, embedded.Options{Dir: dir, Durability: level})), acked, errs)
		})
	}
}

// wantAllThere fails the test unless each acknowledged message is there: three for a
// batch, otherwise one.
func wantAllThere(t *testing.T, js jetstream.JetStream, acked [][]string, errs []error) {
	t.Helper()
	st, err := js.Stream(t.Context(), "T")
	if err != nil {
		t.Fatal(err)
	}
	info, err := st.Info(t.Context(), jetstream.WithSubjectFilter("t.>"))
	if err != nil {
		t.Fatal(err)
	}
	there := info.State.Subjects
	for p := range acked {
		want := uint64(1 + p%2*2)
		if errs[p] != nil || len(acked[p]) == 0 {
			t.Errorf("publisher %d: %d acknowledged, %v; want some, nil", p, len(acked[p]), errs[p])
		}
		for _, id := range acked[p] {
			if there["t."+id] != want {
				t.Errorf("messages of %s = %d; want %d", id, there["t."+id], want)
			}
		}
	}
	for subject, n := range there {
		if n != 1 && n != 3 {
			t.Errorf("messages of %s = %d; want none of a batch, or all 3", subject, n)
		}
	}
}
