//go:build unix

package proxy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A setting can name a file of any kind, even one without an end. memory is how much
// address space, in KiB, a program that reads one gets.
const memory = 4 << 20

// limited runs weir with that memory limit, and returns its exit code and standard
// error.
func limited(t *testing.T, stdin io.Reader, args ...string) (code int, stderr string) {
	t.Helper()
	script := fmt.Sprintf(`ulimit -v %d && exec "$0" "$@"`, memory)
	if raced {
		script = `exec "$0" "$@"` // the race detector reserves more address space than that at startup
	}
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", script, os.Args[0]}, args...)...)
	cmd.Env = append(os.Environ(), asWeir+"=1")
	cmd.Stdin = stdin
	var out bytes.Buffer
	cmd.Stderr = &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// file writes a file in a temporary folder.
func file(t *testing.T, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const one = `
listen: [{address: 127.0.0.1:0}]
upstreams: [{name: a, servers: ["http://127.0.0.1:1"]}]
`

func TestFilesWithoutAnEndAreRefused(t *testing.T) {
	const zero = "/dev/zero"
	cases := map[string][]string{
		"--config":         {"proxy", "--config", zero},
		"check":            {"proxy", "check", "--config", zero},
		"worker":           {"worker", "--config", zero},
		"jobs, token":      {"jobs", "list", "--admin", "http://127.0.0.1:1", "--token-file", zero},
		"jobs, password":   {"jobs", "list", "--nats", "nats://127.0.0.1:1", "--user", "u", "--password-file", zero},
		"standard input":   {"proxy", "--config", "/dev/stdin"},
		"jobs credentials": {"jobs", "list", "--nats", "nats://127.0.0.1:1", "--creds", zero},
	}
	for name, setting := range map[string]string{
		"token_file":      `admin: {address: 127.0.0.1:0, token_file: /dev/zero}`,
		"cert":            `listen: [{address: 127.0.0.1:0, tls: {cert: /dev/zero, key: /dev/zero}}]`,
		"ca":              `upstreams: [{name: a, servers: ["https://127.0.0.1:1"], tls: {ca: /dev/zero}}]`,
		"key":             `upstreams: [{name: a, servers: ["https://127.0.0.1:1"], tls: {cert: /dev/zero, key: /dev/zero}}]`,
		"set_from_file":   `routes: [{name: all, request: {set_from_file: {X-Key: /dev/zero}}}]`,
		"redis password":  `fleet: {redis: {addresses: ["127.0.0.1:1"], username: u, password_file: /dev/zero}}`,
		"jobs token":      `jobs: {dir: jobs, token_file: /dev/zero}`,
		"jobs password":   `jobs: {nats: ["nats://127.0.0.1:1"], username: u, password_file: /dev/zero}`,
		"jobs ca":         `jobs: {nats: ["nats://127.0.0.1:1"], tls: {ca: /dev/zero}}`,
		"headers of otlp": `telemetry: {otlp: {endpoint: "http://127.0.0.1:4318", headers_from_file: {X-Key: /dev/zero}}}`,
	} {
		text := setting + "\n"
		for _, line := range strings.Split(strings.TrimSpace(one), "\n") {
			if key, _, _ := strings.Cut(line, ":"); !strings.HasPrefix(setting, key) {
				text += line + "\n"
			}
		}
		cases[name] = []string{"proxy", "--config", file(t, "weir.yaml", text)}
	}
	for name, args := range cases {
		code, stderr := limited(t, zeros{}, args...)
		if code != 2 && (name != "jobs credentials" || code != 1) || strings.Contains(stderr, "out of memory") {
			t.Errorf("%s: exit code %d; want 2:\n%.600s", name, code, stderr)
		}
		if want := "is larger than"; !strings.Contains(stderr, want) && !strings.Contains(stderr, "of 1 to 4096 bytes") {
			t.Errorf("%s: %.600s\nwant %q", name, stderr, want)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func fifo(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// feed writes to a FIFO once a reader has opened it.
func feed(t *testing.T, name, text string) {
	t.Helper()
	go func() { // ends with the reader, or with the test's process
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return // the test is over
		}
		_, _ = f.WriteString(text)
		_ = f.Close()
	}()
}

// A FIFO, which is what a shell passes for <(command), is read once it has content,
// however often the program needs that content. A reload gets the earlier content, or
// the new content if there is any.
func TestSettingsFromFIFOs(t *testing.T) {
	o := newOrigin(t, "a")
	conf, token := fifo(t), fifo(t)
	text := `
listen: [{address: 127.0.0.1:0}]
admin: {address: 127.0.0.1:0, token_file: ` + token + `}
upstreams: [{name: a, servers: ["` + o.URL + `"]}]
`
	feed(t, conf, text)
	feed(t, token, "sesame-sesame-sesame\n")
	p := start(t, "--config", conf)
	if got := get(p.listen[0]); got.status != http.StatusOK {
		t.Errorf("GET = %d", got.status)
	}
	p.signal(syscall.SIGHUP)
	p.await(`"msg":"reloaded"`, 1)
	feed(t, conf, text+"name: other\n")
	for n := 2; ; n++ { // the first reloads can happen before there is a writer
		p.signal(syscall.SIGHUP)
		p.await(`"msg":"reloaded"`, n)
		resp, err := http.Get(p.listen[0])
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if strings.HasSuffix(resp.Header.Get("Via"), "other") {
			break
		}
	}
	p.signal(syscall.SIGTERM)
	p.ends(0)
}

// A program that waits for its configuration can be stopped.
func TestSignalsWhileTheConfigurationLoads(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		for args, code := range map[string]int{"proxy": 0, "proxy check": 1, "worker": 0} {
			conf := fifo(t)
			p := run(t, nil, append(strings.Fields(args), "--config", conf)...)
			opened := make(chan *os.File, 1)
			go func() { // ends once the program reads, or with the test's process
				w, _ := os.OpenFile(conf, os.O_WRONLY, 0)
				opened <- w
			}()
			select {
			case w := <-opened:
				defer w.Close()
			case <-time.After(patience):
				t.Fatal("the program does not read the configuration")
			}
			began := time.Now()
			p.signal(sig)
			p.ends(code)
			if d := time.Since(began); d > 5*time.Second {
				t.Errorf("weir %s ended %v after the signal; want immediately", args, d)
			}
		}
	}
}

func TestVariablesAreBounded(t *testing.T) {
	p := run(t, []string{"WEIR_UPSTREAM=" + strings.Repeat("x", 100<<10)}, "proxy")
	p.ends(2)
	if !strings.Contains(p.stderr(), "WEIR_UPSTREAM: is larger than 64KiB") {
		t.Errorf("stderr: %.300s", p.stderr())
	}
}
