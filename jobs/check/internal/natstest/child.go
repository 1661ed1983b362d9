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

// childEnv has the config of the server that the test binary is to be.
const childEnv = "WEIR_NATSTEST"

// A config is the input of a child.
type config struct {
	Name     string
	Dir      string
	Port     int // of clients; 0: the child chooses
	Sync     bool
	MaxStore int64

	// Of a member of a cluster.
	RoutePort int
	Routes    []string
}

// Main runs the tests and exits, or is a server, where Start has started it as
// one.
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

// serve runs the server until the process gets a signal, or its standard input
// ends, as it does with the process that has started it. It says "ready PORT"
// when clients can connect, and answers each line of its input.
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

// obey ends the process with its input. Each line is to how many bytes the
// server's files may grow.
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

// A logger writes warnings and errors to the standard error, which the parent
// shows when its test fails, and keeps what is fatal.
type logger struct {
	mu    sync.Mutex
	fatal error // guarded by mu; the first
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

// say leaves out what is always said of servers that do not run.
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
