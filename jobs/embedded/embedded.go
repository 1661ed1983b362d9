package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/serve"
)

// A Server is JetStream in this process. It is safe for concurrent use. The zero
// Server is of no use.
type Server struct {
	o    Options
	log  *logger
	lock *os.File
	addr string
	port int

	flush *flusher
	marks marks

	stop    chan struct{} // closed by Close
	watched chan struct{} // closed when watch has returned
	halted  chan struct{} // closed after halt
	once    sync.Once     // of Close
	err     error         // of Close; written within once, read after it

	mu sync.Mutex
	ns *server.Server // guarded by mu; nil while there is none, see revive

	unserve func() // guarded by mu; ends that this process flushes ns itself; may be nil

	trouble error // guarded by mu; see Err

	full bool // only for watch: nothing is accepted
}

// errRestarting is what connections get while there is no server.
var errRestarting = errors.New("embedded: closed, or restarting after a write that failed")

// Start starts a server, and waits until it has recovered what is in Dir. Before, it
// compares the files with what was flushed, and changes nothing where something is
// missing: see [DamageError]. Its other errors are those of the options, ErrInUse, a
// [StoreError], and why the server cannot start; nothing is left running then.
func Start(o Options) (*Server, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	lock, err := openFolder(o.Dir)
	if err != nil {
		return nil, err
	}
	s := &Server{
		o: o, log: newLogger(o.Log), lock: lock,
		stop: make(chan struct{}), watched: make(chan struct{}), halted: make(chan struct{}),
	}
	s.flush = newFlusher(o.Dir, s.log.fail, func() { s.mark(false) })
	ns, err := s.start()
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.ns = ns
	if a, ok := ns.Addr().(*net.TCPAddr); ok {
		s.port = a.Port
		s.addr = "nats://" + reachable(a)
	}
	if o.Durability == jobs.DurabilityDisk {
		if err = s.serveFlush(); err != nil {
			halt(ns)
			return nil, errors.Join(err, lock.Close())
		}
		s.swap(ns) // to be flushed from now on
	}
	go s.flush.run()
	s.keepFree(ns)
	go s.watch()
	return s, nil
}

func (s *Server) serveFlush() error {
	nc, err := s.Connect(nats.Name("weir flush"))
	if err != nil {
		return err
	}
	return s.flush.serve(nc)
}

// reachable returns where a listener is reached from this machine.
func reachable(a *net.TCPAddr) string {
	host := a.IP.String()
	if a.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(a.Port))
}

// start starts the server within, or leaves nothing of it.
func (s *Server) start() (*server.Server, error) {
	before, err := storedStreams(s.o.Dir, server.DEFAULT_GLOBAL_ACCOUNT)
	if err != nil {
		return nil, &StoreError{s.o.Dir, err}
	}
	prepared, err := s.prepare()
	if err != nil {
		return nil, err
	}
	ns, err := server.NewServer(s.o.serverOptions(s.port))
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	s.log.begin()
	ns.SetLogger(s.log, false, false)
	ns.Start() // returns when all is recovered, and the port open
	said, err := s.log.end()
	if err == nil {
		err = recovered(ns, before, said)
	}
	if err == nil {
		err = s.consumers(ns, prepared.Queues)
	}
	if err != nil {
		halt(ns)
		return nil, fmt.Errorf("embedded: starting the server: %w", err)
	}
	return ns, nil
}

// recovered returns an error where one of the streams that were in the folder is
// not there. The server leaves those out that it cannot read, and would make
// them anew, empty.
func recovered(ns *server.Server, before []string, said string) error {
	detail, err := ns.JszAccount(&server.JSzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Streams: true})
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range before {
		if !slices.ContainsFunc(detail.Streams, func(d server.StreamDetail) bool { return d.Name == name }) {
			errs = append(errs, fmt.Errorf("stream %s was not recovered (%s)", name, said))
		}
	}
	return errors.Join(errs...)
}

func halt(ns *server.Server) {
	ns.Shutdown()
	ns.WaitForShutdown()
}

// Connect returns a connection to the server that does not pass through the
// network. It is the caller's to close, before the Server. Options add to those
// that it has: no end of reconnecting, soon each time.
func (s *Server) Connect(options ...nats.Option) (*nats.Conn, error) {
	options = append([]nats.Option{
		nats.InProcessServer(provider{s}),
		nats.Token(s.o.Token),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond),
	}, options...)
	nc, err := nats.Connect("", options...)
	if err != nil {
		return nil, fmt.Errorf("embedded: connecting: %w", err)
	}
	return nc, nil
}

// A provider is called for each connection, and finds the current server.
type provider struct{ s *Server }

// InProcessConn implements nats.InProcessConnProvider.
func (p provider) InProcessConn() (net.Conn, error) {
	ns := p.s.current()
	if ns == nil {
		return nil, errRestarting
	}
	return ns.InProcessConn()
}

var _ nats.InProcessConnProvider = provider{}

func (s *Server) current() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ns
}

// swap sets the server within, and returns the one before.
func (s *Server) swap(ns *server.Server) *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.ns
	s.ns = ns
	if s.unserve != nil {
		s.unserve()
		s.unserve = nil
	}
	if ns != nil && s.o.Durability == jobs.DurabilityDisk {
		s.unserve = serve.Locally(ns.ID(), s.flush)
	}
	return old
}

// Durability is what an acknowledged write survives, for jobs.StoreOptions.
func (s *Server) Durability() jobs.Durability { return s.o.Durability }

// Addr is where other programs reach it, "nats://host:port"; empty: nowhere.
func (s *Server) Addr() string { return s.addr }

// Close stops the server, and waits for it until ctx ends, and then returns its cause;
// the server stops all the same. Connections are cut, and find nobody any more. It may
// be called again.
func (s *Server) Close(ctx context.Context) error {
	s.once.Do(func() { go s.halt() })
	select {
	case <-s.halted:
		return s.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// halt is Close, once.
func (s *Server) halt() {
	defer close(s.halted)
	close(s.stop)
	<-s.watched
	s.flush.close()
	s.mark(true)
	s.flush.reset(func() {})
	if ns := s.swap(nil); ns != nil {
		halt(ns)
	}
	s.err = s.lock.Close()
}
