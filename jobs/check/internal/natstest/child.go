package natstest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// childEnv is the environment variable with the config of the server that the test
// binary is to run.
const childEnv = "WEIR_NATSTEST"

// A config is the input of a child process.
type config struct {
	Name     string
	Dir      string
	Port     int // port for clients; 0: the child chooses
	Sync     bool
	MaxStore int64

	// For a member of a cluster.
	RoutePort int
	Routes    []string
}

// Main runs the tests and exits. If Start has started this process as a server, Main
// runs the server instead.
func Main(m *testing.M) {
	text, child := os.LookupEnv(childEnv)
	if !child {
		os.Exit(m.Run())
	}
	var c config
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = c.serve(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (c config) options() (*server.Options, error) {
	o := &server.Options{
		ServerName: c.Name,
		Host:       "127.0.0.1",
		Port:       c.Port,
		JetStream:  true,
		StoreDir:   c.Dir,
		SyncAlways: c.Sync,
		NoSigs:     true,

		JetStreamMaxStore:      c.MaxStore,
		DisableJetStreamBanner: true,
	}
	if c.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	if c.RoutePort == 0 {
		return o, nil
	}
	o.Cluster = server.ClusterOpts{Name: "weir", Host: "127.0.0.1", Port: c.RoutePort}
	for _, route := range c.Routes {
		u, err := url.Parse(route)
		if err != nil {
			return nil, err
		}
		o.Routes = append(o.Routes, u)
	}
	return o, nil
}

// serve runs the server until the process gets a signal or its standard input ends,
// which happens when the process that started it is gone. It prints "ready PORT" when
// clients can connect, and replies to each line of its input.
func (c config) serve(in io.Reader, out io.Writer) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	ns, err := server.NewServer(o)
	if err != nil {
		return err
	}
	var log logger
	ns.SetLogger(&log, false, false)
	ns.Start()
	if err := log.failed(); err != nil {
		return err
	}
	if !ns.ReadyForConnections(30 * time.Second) {
		return fmt.Errorf("not ready within 30 s")
	}
	addr, ok := ns.Addr().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("listens at %v", ns.Addr())
	}
	go obey(in, out)
	fmt.Fprintln(out, "ready", addr.Port)

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	ns.Shutdown()
	ns.WaitForShutdown()
	return nil
}

// obey ends the process when its input ends. Each input line is a limit in bytes for
// the growth of the server's files.
func obey(in io.Reader, out io.Writer) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		n, err := strconv.ParseUint(lines.Text(), 10, 64)
		if err == nil {
			err = limitFiles(n)
		}
		if err != nil {
			fmt.Fprintln(out, "error", err)
			continue
		}
		fmt.Fprintln(out, "limited")
	}
	os.Exit(1)
}

// A logger writes warnings and errors to standard error, which the parent shows if
// its test fails. It also keeps the fatal error.
type logger struct {
	mu    sync.Mutex
	fatal error // guarded by mu; the first fatal error
}

func (l *logger) Warnf(format string, v ...any)  { l.say("warning", format, v...) }
func (l *logger) Errorf(format string, v ...any) { l.say("error", format, v...) }
func (l *logger) Noticef(string, ...any)         {}
func (l *logger) Debugf(string, ...any)          {}
func (l *logger) Tracef(string, ...any)          {}

func (l *logger) Fatalf(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal == nil {
		l.fatal = fmt.Errorf(format, v...)
	}
}

// say skips messages that are always logged about servers that are down.
func (l *logger) say(level, format string, v ...any) {
	msg := strings.TrimSpace(fmt.Sprintf(format, v...))
	if !strings.Contains(msg, "trying to connect to route") {
		fmt.Fprintln(os.Stderr, time.Now().Format("15:04:05.000"), level, msg)
	}
}

func (l *logger) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}
