package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy"
	"github.com/weir-go/weir/app/proxy/listen"
	"github.com/weir-go/weir/gateway"
)

// stubborn is a gateway that rejects every update.
type stubborn struct{ *gateway.Gateway }

func (stubborn) Update(gateway.Config) error { return errors.New("not today") }
func (stubborn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, "stubborn")
}

// free returns an address without a listener.
func free(t *testing.T) string {
	t.Helper()
	for {
		// Below the ports that systems give to clients and to ":0", one that was free stays
		// free until a test listens there, although other tests run meanwhile.
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(10_000+rand.IntN(20_000)))
		if _, given := givenAddrs.LoadOrStore(addr, true); given {
			continue
		}
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close() // only its address was needed
			return addr
		}
	}
}

// givenAddrs are the addresses that free has returned.
var givenAddrs sync.Map

// When the gateway rejects the new configuration, the listeners that were opened for it
// are closed again, and the old ones keep serving.
func TestRefusedUpdateLeavesNothingBehind(t *testing.T) {
	first, second := free(t), free(t)
	var loads atomic.Int32
	logs := &said{lines: make(chan string, 100)}
	hangups, ended := make(chan struct{}), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		ended <- proxy.Run(ctx, proxy.Options{
			Load: func() (proxy.Settings, error) {
				s := proxy.Settings{Listen: []listen.Config{{Address: first}}, DrainTimeout: patience}
				if loads.Add(1) > 1 {
					s.Listen[0].Address = second
				}
				return s, nil
			},
			Stdout: io.Discard, Stderr: logs, Hangups: hangups,
			New: func(c gateway.Config) (proxy.Gateway, error) {
				c.Upstreams = []gateway.Upstream{{Name: "a", Servers: []string{"http://127.0.0.1:1"}}}
				g, err := gateway.New(c)
				return stubborn{g}, err
			},
		})
	}()
	logs.await(t, `"msg":"ready"`)
	hangups <- struct{}{}
	logs.await(t, "not today")
	if c, err := net.Dial("tcp", second); err == nil {
		c.Close()
		t.Error("the listener of the rejected configuration is open")
	}
	if r := get("http://" + first + "/"); r.body != "stubborn" || r.closes {
		t.Errorf("the old listener answers %+v; want it to keep serving", r)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v; want nil", err)
	}
}

// Lines that the access log could not write are in /stats, and their number survives a
// reload, which opens a new log.
func TestH4_LostLinesAreInStats(t *testing.T) {
	o := newOrigin(t, "a")
	ops := free(t)
	logs := &said{lines: make(chan string, 100)}
	hangups, ended := make(chan struct{}), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	s := settings(t, fmt.Sprintf("listen: [{address: %q}]\nadmin: {address: %q}\nlog: {access: all}", free(t), ops))
	s.Gateway.Upstreams[0].Servers = []string{o.URL}
	go func() {
		ended <- proxy.Run(ctx, proxy.Options{
			Load:   func() (proxy.Settings, error) { return s, nil },
			Stdout: full{}, Stderr: logs, Hangups: hangups,
		})
	}()
	logs.await(t, `"msg":"ready"`)
	for n := 1; n < 3; n++ {
		if r := get("http://" + s.Listen[0].Address + "/"); r.body != "a" {
			t.Errorf("a request got %+v", r)
		}
		want := fmt.Sprintf(`"log_lines_lost":%d`, n)
		until(t, want, func() bool { // the line is written after the response
			return strings.Contains(strings.ReplaceAll(get("http://"+ops+"/stats").body, " ", ""), want)
		})
		hangups <- struct{}{}
		logs.await(t, `"msg":"reloaded"`)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v; want nil", err)
	}
}

// Pipes that are not read, for both logs, block neither requests nor purges, and the end of
// the proxy waits for them for a second.
func TestH4_LogsThatAreNotReadBlockNothing(t *testing.T) {
	o := newOrigin(t, "a")
	ops := free(t)
	messages := &clogged{said: said{lines: make(chan string, 100)}, until: make(chan struct{})}
	lines := &clogged{said: said{lines: make(chan string, 100)}, until: messages.until}
	lines.on.Store(true)
	t.Cleanup(func() { close(messages.until) })
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	s := settings(t, fmt.Sprintf("listen: [{address: %q}]\nadmin: {address: %q}\nlog: {access: all}", free(t), ops))
	s.Gateway.Upstreams[0].Servers = []string{o.URL}
	go func() {
		ended <- proxy.Run(ctx, proxy.Options{Load: func() (proxy.Settings, error) { return s, nil }, Stdout: lines, Stderr: messages})
	}()
	messages.await(t, `"msg":"ready"`)
	messages.on.Store(true)
	line := strings.Repeat("x", 10<<10)
	const n = 300 // lines, more than may wait
	for range n {
		if r := get("http://" + s.Listen[0].Address + "/?" + line); r.body != "a" {
			t.Fatalf("a request got %+v; want the response", r)
		}
		resp, err := http.Post("http://"+ops+"/purge", "application/json", strings.NewReader(`{"all": true}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("a purge got %d; want 200", resp.StatusCode)
		}
	}
	var stats struct {
		Process struct {
			Lost int `json:"log_lines_lost"`
		}
	}
	until(t, "lost lines are counted", func() bool {
		return json.Unmarshal([]byte(get("http://"+ops+"/stats").body), &stats) == nil && stats.Process.Lost > n/4
	})
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v; want nil", err)
	}
}

// A clogged blocks while on, until until is closed.
type clogged struct {
	said
	on    atomic.Bool
	until chan struct{}
}

func (c *clogged) Write(p []byte) (int, error) {
	if c.on.Load() {
		<-c.until
		return len(p), nil
	}
	return c.said.Write(p)
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// said passes on the log lines.
type said struct{ lines chan string }

func (s *said) Write(p []byte) (int, error) { s.lines <- string(p); return len(p), nil }

func (s *said) await(t *testing.T, text string) {
	t.Helper()
	for end := time.After(patience); ; {
		select {
		case line := <-s.lines:
			if strings.Contains(line, text) {
				return
			}
		case <-end:
			t.Fatalf("%q was not logged", text)
		}
	}
}
