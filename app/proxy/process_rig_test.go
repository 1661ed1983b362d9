package proxy_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/app/cli"
	"github.com/weir-go/weir/app/command"
)

// The tests run the program as a process: this test binary, which acts as weir when
// this variable is set.
const asWeir = "WEIRTEST_IS_WEIR"

func TestMain(m *testing.M) {
	if os.Getenv(asWeir) != "" {
		os.Unsetenv(asWeir)
		os.Exit(cli.Main(command.OS()))
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for an expected event, on a machine that is busy
// with other work.
const patience = 30 * time.Second

// A process is a running weir.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	listen []string // URLs
	admin  string   // URL
	exited chan struct{}

	mu    sync.Mutex
	lines []string      // guarded by mu; of standard error
	moved chan struct{} // guarded by mu; closed and replaced with each line
}

// run starts weir and waits for nothing.
func run(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return runProgram(t, os.Args[0], env, args...)
}

// runProgram is run with the program in a file.
func runProgram(t *testing.T, program string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(program, args...), exited: make(chan struct{}), moved: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), append(env, asWeir+"=1")...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the process
		for s := bufio.NewScanner(stderr); s.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, s.Text())
			close(p.moved)
			p.moved = make(chan struct{})
			p.mu.Unlock()
		}
		_ = p.cmd.Wait() // the state has the result
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended already
		<-p.exited
	})
	return p
}

// start starts weir and waits until it is ready.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startWith(t, nil, args...)
}

func startWith(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return run(t, env, append([]string{"proxy"}, args...)...).ready()
}

// ready waits until a proxy is ready, and records its addresses.
func (p *process) ready() *process {
	p.t.Helper()
	var ready struct {
		Listen []string
		Admin  string
	}
	if err := json.Unmarshal([]byte(p.await(`"msg":"ready"`, 1)), &ready); err != nil {
		p.t.Fatal(err)
	}
	p.listen, p.admin = ready.Listen, ready.Admin
	return p
}

// await waits for the nth line of standard error that contains text, and returns it.
func (p *process) await(text string, nth int) string {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		ended := false
		select {
		case <-p.exited: // everything that it logged has been read
			ended = true
		default:
		}
		line, moved := p.find(text, nth)
		if line != "" {
			return line
		}
		if ended {
			p.t.Fatalf("weir exited without logging %q (%d):\n%s", text, nth, p.stderr())
		}
		select {
		case <-moved:
		case <-p.exited:
		case <-deadline:
			p.t.Fatalf("weir has not logged %q (%d):\n%s", text, nth, p.stderr())
		}
	}
}

// find returns the nth line that contains text, or "" if there is none yet; moved is
// then closed with the next line.
func (p *process) find(text string, nth int) (line string, moved <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.lines {
		if strings.Contains(line, text) {
			if nth--; nth == 0 {
				return line, nil
			}
		}
	}
	return "", p.moved
}

func (p *process) stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// ends waits for the program to exit, and fails the test if the exit code differs.
func (p *process) ends(code int) {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatalf("weir does not exit:\n%s", p.stderr())
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit code %d; want %d:\n%s", got, code, p.stderr())
	}
}

// An origin signals that a request has arrived, and answers it when the test allows it.
type origin struct {
	*httptest.Server
	came chan struct{}
	may  chan struct{}
}

// newOrigin returns an origin that holds /wait until the test releases it, and answers
// everything else with its name.
func newOrigin(t *testing.T, name string) *origin {
	o := &origin{came: make(chan struct{}, 100), may: make(chan struct{})}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if strings.HasPrefix(r.URL.Path, "/wait") {
			o.came <- struct{}{}
			select {
			case <-o.may:
			case <-r.Context().Done():
			}
		}
		io.WriteString(w, name)
	}))
	t.Cleanup(o.Close)
	return o
}

// An answer is the response to a request.
type answer struct {
	status int
	body   string
	closes bool
	err    error
}

func get(url string) answer {
	r, err := http.Get(url)
	if err != nil {
		return answer{err: err}
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return answer{r.StatusCode, string(b), r.Close, err}
}

// going sends a request without waiting for its response.
func going(url string) <-chan answer {
	c := make(chan answer, 1)
	go func() { c <- get(url) }()
	return c
}

// config writes a configuration with one upstream.
func config(t *testing.T, file, upstream, rest string) {
	t.Helper()
	text := fmt.Sprintf("upstreams:\n  - name: app\n    servers: [%q]\n%s\n", upstream, rest)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
