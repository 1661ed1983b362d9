package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/weir/app/proxy"
	weirconfig "github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/plain/plaintest"
)

// A buffer is safe for concurrent use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newRawOrigin answers the first request of each connection with the result of respond
// for its target, and closes the connection.
func newRawOrigin(t *testing.T, respond func(target string) string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { // until l is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection
				defer c.Close()
				in := bufio.NewReader(c)
				first, _ := in.ReadString('\n')
				for line := first; err == nil && strings.TrimSpace(line) != ""; {
					line, err = in.ReadString('\n')
				}
				if words := strings.Fields(first); len(words) > 1 {
					io.WriteString(c, respond(words[1]))
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// raw sends a request unchanged, and returns everything that comes back.
func raw(t *testing.T, to, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(to, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(c) // the connection can end with a reset
	return string(b)
}

// Hidden characters that clients and origins send, in any part of a message, stay
// hidden nowhere that an operator looks: they are escaped in logs, endpoints, the
// console, metrics and receipts.
func TestH21_NothingHidesFromOperators(t *testing.T) {
	origin := newRawOrigin(t, func(target string) string {
		var n int
		if _, err := fmt.Sscanf(target, "/bad/%d", &n); err == nil {
			h := plaintest.Kinds[n/4].Hidden
			return []string{
				"HTTP/1.1 200 OK\r\nno field " + h + "\r\n\r\n",
				"HTTP/1.1 2" + h + " OK\r\n\r\n",
				h + "\r\n\r\n",
				"HTTP/1.1 200 OK\r\nContent-Length: " + h + "\r\n\r\n",
			}[n%4]
		}
		_, h, _ := strings.Cut(target, "|")
		return "HTTP/1.1 200 O" + h + "K\r\nCache-Control: max-age=60\r\nSurrogate-Key: t" + h + "\r\nContent-Length: 2\r\nConnection: close\r\nVary: x-" + h + "\r\n\r\nok"
	})
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte(`
listen: [{address: 127.0.0.1:0}]
admin: {address: 127.0.0.1:0, show_keys: true}
log: {access: all, level: debug}
upstreams: [{name: shop, servers: [`+origin+`]}]
routes: [{name: all, upstream: shop, receipt_key: true}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := &buffer{}, &said{lines: make(chan string, 10_000)}
	ctx, stop := context.WithCancel(t.Context())
	ended, started := make(chan error, 1), make(chan string, 1)
	log := &buffer{}
	go func() {
		for line := range stderr.lines {
			io.WriteString(log, line)
			if strings.Contains(line, `"msg":"ready"`) {
				started <- line
			}
		}
	}()
	go func() {
		ended <- proxy.Run(ctx, proxy.Options{
			Load: func() (proxy.Settings, error) {
				c, err := weirconfig.Load(weirconfig.Source{File: file})
				if err != nil {
					return proxy.Settings{}, err
				}
				return proxy.Configure(c)
			},
			Stdout: stdout, Stderr: stderr,
		})
	}()
	var public, admin string
	for _, part := range strings.Split(<-started, `"`) {
		if strings.HasPrefix(part, "http://127.0.0.1:") && !strings.HasSuffix(part, "/console/") {
			if public == "" {
				public = part
			} else {
				admin = part
			}
		}
	}
	receipts := ""
	for i, k := range plaintest.Kinds {
		h := k.Hidden
		for _, request := range []string{
			"GET /p|" + h + " HTTP/1.1\r\nHost: h.test\r\n",
			"GET /q?|" + h + " HTTP/1.1\r\nHost: h.test\r\nX-Request-Id: " + h + "\r\nUser-Agent: " + h + "\r\nReferer: " + h + "\r\n",
			"GET /h HTTP/1.1\r\nHost: h" + h + ".test\r\n",
			"GET http://user:secret@h.test/a|" + h + " HTTP/1.1\r\nHost: h.test\r\n",
			"GET /u HTTP/1.1\r\nHost: user:secret@h.test\r\n",
			"CONNECT user:secret@h.test:443 HTTP/1.1\r\nHost: h.test:443\r\n",
			"G" + h + "T / HTTP/1.1\r\nHost: h.test\r\n",
			"GET /f HTTP/1.1\r\nHost: h.test\r\nA" + h + ": b\r\n",
			"GET /f HTTP/1." + h + "\r\nHost: h.test\r\n",
			"POST /t HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: " + h + "\r\n",
			fmt.Sprintf("GET /bad/%d HTTP/1.1\r\nHost: h.test\r\n", 4*i), fmt.Sprintf("GET /bad/%d HTTP/1.1\r\nHost: h.test\r\n", 4*i+1),
			fmt.Sprintf("GET /bad/%d HTTP/1.1\r\nHost: h.test\r\n", 4*i+2), fmt.Sprintf("GET /bad/%d HTTP/1.1\r\nHost: h.test\r\n", 4*i+3),
		} {
			head, _, _ := strings.Cut(raw(t, public, request+"Connection: close\r\n\r\n"), "\r\n\r\n")
			for _, line := range strings.Split(head, "\r\n") {
				if name, _, _ := strings.Cut(line, ":"); name == "Cache-Status" || name == "Proxy-Status" {
					receipts += line + "\n"
				}
			}
		}
	}
	ask := func(target string, body string) string {
		t.Helper()
		method := map[bool]string{true: "GET", false: "POST"}[body == ""]
		r, err := http.NewRequest(method, admin+target, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	explained := ""
	for _, k := range plaintest.Kinds {
		explained += ask("/explain?url="+url.QueryEscape("http://h.test/p|"+k.Hidden), "") + ask("/explain?url="+url.QueryEscape("http://user:secret@h.test/p"), "")
	}
	sinks := map[string]string{
		"/explain": explained, "/stats": ask("/stats", ""), "/metrics": ask("/metrics", ""), "/readyz": ask("/readyz", ""),
		"the console's snapshot": ask("/console/api/snapshot", ""), "the console's route": ask("/console/api/units/all", ""), "the console's hot keys": ask("/console/api/hot?unit=all&n=100", ""),
		"Cache-Status and Proxy-Status": receipts,
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v; want nil", err)
	}
	close(stderr.lines)
	sinks["the access log"], sinks["the log"] = stdout.String(), log.String()
	for name, text := range sinks {
		for _, line := range strings.Split(text, "\n") {
			if found := plaintest.Find(line); found != "" || strings.Contains(line, "secret") {
				t.Errorf("%s: %q, found %q; want it escaped, and no password", name, line, found)
			}
		}
		if text == "" {
			t.Errorf("%s is empty", name)
		}
	}
	for _, name := range []string{"the access log", "Cache-Status and Proxy-Status"} {
		for _, k := range plaintest.Kinds {
			if k.Hidden > "\x1f" && k.Hidden != "\x7f" && !strings.Contains(sinks[name], "|"+strings.ReplaceAll(k.Shown, `\`, `\\`)) {
				t.Errorf("%s does not show %s as %s", name, k.Name, k.Shown)
			}
		}
	}
}
