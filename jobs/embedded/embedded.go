package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/serve"
)

// A Server is JetStream in this process. It is safe for concurrent use. The zero
// Server is not usable.
type Server struct {
	o    Options
	log  *logger
	lock *os.File
	gate *gate
	addr string
	port int

	flush *flusher
	marks marks

	stop    chan struct{} // closed by Close
	watched chan struct{} // closed when watch has returned
	halted  chan struct{} // closed after halt
	once    sync.Once     // of Close
	err     error         // returned by Close; written within once, read after it

	mu sync.Mutex
	ns *server.Server // guarded by mu; nil while there is none, see revive

	unserve func() // guarded by mu; ends the calls of package jobs in this process; may be nil

	trouble error // guarded by mu; why nothing can be written
	probe   error // guarded by mu; why a submit would fail
	pressed error // guarded by mu; why the rest of the disk is kept for accepted jobs
	down    error // guarded by mu; see Down

	// Used by Start and then by watch only.
	low    bool  // new jobs are refused
	full   bool  // all writes are rejected
	probed error // the latest probe's

	spares spares
}

// errRestarting is returned to connections while there is no server.
var errRestarting = errors.New("embedded: closed, or restarting after a failed write")

// Start starts a server and waits until it has recovered what is in Dir. Before that,
// it compares the files with what was flushed; if something is missing, it changes
// nothing and returns a [DamageError]. If the embedded server loses jobs while it starts, it
// puts the files back and returns a [RecoveryError]. Its other errors are faults in the
// options, ErrInUse, a [StoreError], and whatever keeps the server from starting. After an
// error nothing is left running, and the files are as they were.
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
		o: o, log: newLogger(o.Log), lock: lock, gate: newGate(o.Token),
		stop: make(chan struct{}), watched: make(chan struct{}), halted: make(chan struct{}),
	}
	s.flush = newFlusher(o.Dir, s.log.fail, func() { s.mark(false) }, s.spares.release)
	ns, err := s.start()
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.ns = ns
	if a, ok := ns.Addr().(*net.TCPAddr); ok {
		s.port = a.Port
		s.addr = "nats://" + reachable(a)
	}
	if err = s.serveRequests(); err != nil {
		halt(ns)
		return nil, errors.Join(err, lock.Close())
	}
	s.swap(ns) // from now on requests of this process are calls
	go s.flush.run()
	s.keepFree(ns)
	_ = s.spares.check() // watch reports it
	go s.watch()
	return s, nil
}

// serveRequests answers requests of other programs, and of this one until swap.
func (s *Server) serveRequests() error {
	nc, err := s.Connect(nats.Name("weir jobs"))
	if err != nil {
		return err
	}
	return s.flush.serve(nc, s.o.Durability == jobs.DurabilityDisk, s.room)
}

// A served is what package jobs calls in this process.
type served struct {
	*flusher
	s *Server
}

var _ serve.Roomer = served{}

// Room implements serve.Roomer.
func (v served) Room() (left int64, why error) { return v.s.room() }

// reachable returns the address at which this machine reaches a listener.
func reachable(a *net.TCPAddr) string {
	host := a.IP.String()
	if a.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(a.Port))
}

func halt(ns *server.Server) {
	ns.Shutdown()
	ns.WaitForShutdown()
}

// Connect returns a connection to the server that bypasses the network. The caller
// must close it before the Server. Options add to the defaults, which are to
// reconnect without limit and after a short wait.
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

// A provider is called for each connection, and uses the current server.
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

// swap replaces the embedded server, and returns the previous one.
func (s *Server) swap(ns *server.Server) *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.ns
	s.ns = ns
	if s.unserve != nil {
		s.unserve()
		s.unserve = nil
	}
	if ns != nil {
		s.unserve = serve.Locally(ns.ID(), served{s.flush, s})
	}
	return old
}

// Durability returns what an acknowledged write survives, for jobs.StoreOptions.
func (s *Server) Durability() jobs.Durability { return s.o.Durability }

// Addr returns the address for other programs, "nats://host:port", or "" if the
// server does not listen.
func (s *Server) Addr() string { return s.addr }

// Close stops the server and waits for it. If ctx ends first, Close returns its
// cause, and the server still stops. Open connections are cut, and new ones fail.
// Close may be called more than once.
func (s *Server) Close(ctx context.Context) error {
	s.once.Do(func() { go s.halt() })
	select {
	case <-s.halted:
		return s.err
	case <-ctx.Done():
		return cmp.Or(context.Cause(ctx), context.Canceled)
	}
}

// halt is the body of Close and runs once.
func (s *Server) halt() {
	defer close(s.halted)
	close(s.stop)
	<-s.watched
	s.flush.close()
	s.mark(true)
	s.keepMeta()
	s.flush.reset(func() {})
	if ns := s.swap(nil); ns != nil {
		halt(ns)
	}
	s.err = s.lock.Close()
}
