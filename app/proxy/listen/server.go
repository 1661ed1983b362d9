package listen

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-go/weir/plain"
)

// The defaults of Limits.
const (
	DefaultReadHeader     = 10 * time.Second
	DefaultIdle           = 60 * time.Second
	DefaultRead           = 30 * time.Second
	DefaultWrite          = 30 * time.Second
	DefaultMaxHeaderBytes = 64 << 10
	DefaultMaxStreams     = 250
)

// Limits bound what a client can take and send. 0 means the default; a negative time
// means no time-out.
type Limits struct {
	Whole          time.Duration // for a request with its body; 0 means none
	ReadHeader     time.Duration // for the header of a request, and the TLS handshake; 10 s
	Idle           time.Duration // between requests; 60 s
	Read           time.Duration // without progress in a request's body; 30 s
	Write          time.Duration // without progress in a response; 30 s
	MaxHeaderBytes int           // of a request's header, larger ones get 431; 64 KiB
	MaxStreams     int           // concurrent on an HTTP/2 connection; 250
}

func (l Limits) withDefaults() Limits {
	l.ReadHeader = cmp.Or(l.ReadHeader, DefaultReadHeader)
	l.Idle = cmp.Or(l.Idle, DefaultIdle)
	l.Read = cmp.Or(l.Read, DefaultRead)
	l.Write = cmp.Or(l.Write, DefaultWrite)
	l.MaxHeaderBytes = cmp.Or(l.MaxHeaderBytes, DefaultMaxHeaderBytes)
	l.MaxStreams = cmp.Or(l.MaxStreams, DefaultMaxStreams)
	return l
}

// A Config configures one listener.
type Config struct {
	// Address is host:port. An empty host means all addresses.
	Address string
	// TLS is the certificate. Empty file names mean no TLS.
	TLS KeyPair
	// More are further certificates, for clients that ask for their names. TLS is for all
	// others.
	More []NamedPair
	// H2C lets clients use HTTP/2 without TLS, by prior knowledge.
	H2C bool
	// ProxyProtocol lists the peers that send a PROXY header. nil means none.
	ProxyProtocol []netip.Prefix
	Limits        Limits
	// FastPath serves plain requests of HTTP/1.1 clients without net/http: GET and HEAD
	// without a body, and with unambiguous fields. Handler gets the same requests, with a
	// ResponseWriter that cannot be hijacked.
	FastPath bool
}

// Equal reports whether a and b are the same.
func (a Config) Equal(b Config) bool {
	return a.Address == b.Address && a.TLS == b.TLS && a.H2C == b.H2C && slices.EqualFunc(a.More, b.More, NamedPair.equal) &&
		a.Limits == b.Limits && a.FastPath == b.FastPath && slices.Equal(a.ProxyProtocol, b.ProxyProtocol)
}

// Scheme returns the URL scheme that clients have to use.
func (a Config) Scheme() string {
	if a.TLS.Cert != "" {
		return "https"
	}
	return "http"
}

// Options are shared by all servers.
type Options struct {
	Handler http.Handler
	// Fast counts the requests that are served without net/http. nil counts nothing.
	Fast *atomic.Uint64
	// Rejected is called for each response of Go's HTTP server to a request that it could not
	// read (400, 431, 505, and others), for which Handler is not called. nil means no call.
	Rejected func(client net.Addr, status int)
	// Base is the context of every request. nil means context.Background.
	Base context.Context
	// Logger logs replaced and bad certificates, and the messages of net/http. nil
	// means slog.Default.
	Logger *slog.Logger
	// Slots bounds the connections of all servers that share it. nil means no bound.
	Slots *Slots
	// Lingering bounds the connections of all servers that share it that are closed by a
	// lingering close. nil means a Lingering for this server.
	Lingering *Lingering
	// CertInterval is how often the certificate files are checked. 0 means 10 s.
	CertInterval time.Duration
}

// A Server is an HTTP server on a socket. Call Open, then Serve, and finally Close or
// Shutdown.
type Server struct {
	config  Config
	options Options
	socket  *net.TCPListener
	http    http.Server
	cert    *Certificates // nil without TLS
	quit    chan struct{}
	once    sync.Once
	silent  silent
	running sync.WaitGroup // Serve, and watchFiles
	retired atomic.Bool
	slots   *slotListener

	stopping  atomic.Bool   // net/http closes connections that are idle
	cut       atomic.Bool   // connections are cut off, even if a request is being served
	aside     atomic.Int64  // requests served without net/http, and lingering connections
	asideOver chan struct{} // has room for one; see waitForAside

	mu      sync.Mutex
	hands   *handshaker              // guarded by mu; nil without TLS, and before Serve
	closing map[*framedConn]struct{} // guarded by mu; connections that net/http has closed, which end later
}

// Open opens a listener. If old is not nil, its address must be the same, and Open
// takes over its socket: connections that wait to be accepted are not lost. Nothing is
// accepted until Serve is called.
func Open(c Config, o Options, old *Server) (*Server, error) {
	s := &Server{config: c, options: o, quit: make(chan struct{}), asideOver: make(chan struct{}, 1), closing: map[*framedConn]struct{}{}}
	s.options.Logger = plain.Logger(s.options.Logger)
	s.options.CertInterval = cmp.Or(s.options.CertInterval, 10*time.Second)
	if c.TLS.Cert != "" {
		var err error
		if s.cert, err = LoadCertificates(c.TLS, c.More); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", c.Address, err)
		}
	}
	var err error
	if old != nil {
		s.socket, err = old.share()
	} else {
		s.socket, err = open(c.Address)
	}
	if err != nil {
		return nil, err
	}
	s.slots = newSlotListener(s.socket, o.Slots)
	s.prepare()
	return s, nil
}

// open opens a socket.
func open(address string) (*net.TCPListener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l.(*net.TCPListener), nil
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		err = errors.New("the address is in use")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		err = errors.New("this machine has no such address")
	case errors.Is(err, syscall.EACCES):
		err = errors.New("not allowed (ports below 1024 need CAP_NET_BIND_SERVICE)")
	}
	return nil, fmt.Errorf("listen on %s: %w", address, err)
}

// share returns a second handle to the socket. Both accept from the same queue, and
// each can be closed without the other.
func (s *Server) share() (*net.TCPListener, error) {
	f, err := s.socket.File()
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", s.config.Address, err)
	}
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", s.config.Address, err)
	}
	return l.(*net.TCPListener), nil
}

// prepare sets up the HTTP server.
func (s *Server) prepare() {
	if s.options.Lingering == nil {
		s.options.Lingering = new(Lingering)
	}
	limits := s.config.Limits.withDefaults()
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(s.cert != nil)
	protocols.SetUnencryptedHTTP2(s.config.H2C && s.cert == nil)
	s.http = http.Server{
		Handler:           &entrance{server: s, next: s.options.Handler, body: limits.Read, write: limits.Write},
		ReadHeaderTimeout: limits.ReadHeader,
		ReadTimeout:       max(limits.Whole, 0),
		IdleTimeout:       limits.Idle,
		MaxHeaderBytes:    limits.MaxHeaderBytes,
		Protocols:         &protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: limits.MaxStreams,
			SendPingTimeout:      max(limits.Idle/2, time.Second), // detects broken connections
		},
		ErrorLog: log.New(complaints(s.options.Logger, slog.LevelDebug), "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			ctx = context.WithValue(ctx, connKey{}, below(c))
			if f, ok := c.(interface{ framed() *framedConn }); ok {
				ctx = context.WithValue(ctx, framedKey{}, f.framed())
				f.framed().bind(ctx)
			}
			return ctx
		},
		ConnState:                    changed,
		DisableGeneralOptionsHandler: true, // OPTIONS * is for the origin
	}
	if s.options.Base != nil {
		s.http.BaseContext = func(net.Listener) context.Context { return s.options.Base }
	}
	if s.cert != nil {
		s.http.TLSConfig = &tls.Config{GetCertificate: s.cert.Get, NextProtos: []string{"h2", "http/1.1"}}
	}
}

// below returns the progressConn below a connection.
func below(c net.Conn) *progressConn {
	for {
		switch conn := c.(type) {
		case *progressConn:
			return conn
		case *shyConn:
			return conn.progressConn
		}
		above, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = above.NetConn()
	}
}

// turnsAway asks the clients of a retired server to disconnect, and refuses clients
// that use HTTP/2 on a listener without it: net/http passes their preface to the
// handler.
func (s *Server) turnsAway(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == "PRI" && r.RequestURI == "*" {
		w.Header().Set("Connection", "close")
		http.Error(w, "HTTP/2 without TLS is not supported here", http.StatusHTTPVersionNotSupported)
		return true
	}
	if s.retired.Load() || r.Close { // net/http ignores r.Close for HTTP/1.0 if keep-alive is also set
		w.Header().Set("Connection", "close")
	}
	return false
}

// Config returns the Config that the Server was opened with.
func (s *Server) Config() Config { return s.config }

// Address returns the listening address, with the actual port if port 0 was configured.
func (s *Server) Address() string { return s.socket.Addr().String() }

// Serve starts accepting connections, in the background, until the Server is closed. It
// calls failed if it ends for any other reason.
func (s *Server) Serve(failed func(error)) { s.serve(s.slots, failed) }

func (s *Server) serve(l net.Listener, failed func(error)) {
	limits := s.config.Limits.withDefaults()
	if len(s.config.ProxyProtocol) > 0 {
		l = proxied(l, s.config.ProxyProtocol, limits.ReadHeader)
	}
	l = progressListener{l, limits.Write}
	if s.cert != nil {
		hands := shakeHands(l, s.http.TLSConfig, limits.ReadHeader, s.http.ErrorLog, s.options.Lingering, &s.silent)
		s.mu.Lock()
		s.hands = hands
		s.mu.Unlock()
		l = hands
	}
	l = framedListener{l, s}
	s.running.Go(func() {
		err := s.http.Serve(l)
		if !errors.Is(err, http.ErrServerClosed) && !s.retired.Load() {
			failed(fmt.Errorf("listener %s: %w", s.config.Address, err))
		}
	})
	if s.cert != nil {
		s.running.Go(s.watchFiles)
	}
}

// watchFiles reloads the certificate when its files change.
func (s *Server) watchFiles() {
	tick := time.NewTicker(s.options.CertInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.ReloadCertificate()
		case <-s.quit:
			return
		}
	}
}

// ReloadCertificate checks the certificate files now, and logs the result.
func (s *Server) ReloadCertificate() {
	if s.cert == nil {
		return
	}
	fresh, err := s.cert.Reload()
	if err != nil {
		s.options.Logger.Error("invalid new certificate; keeping the current one", "listener", s.config.Address, "error", err)
	}
	for _, c := range fresh {
		s.options.Logger.Info("certificate replaced", "listener", s.config.Address, "file", c.files.Cert, "expires", c.Expires().UTC())
	}
}

// Retire closes the socket, of which another Server can have a second handle, and asks
// clients to disconnect, with each response. Connections without a request stay open
// until they leave, have been idle for too long, or hurry is closed. Closing them
// earlier could lose a request that is on its way. Retire then calls Shutdown.
func (s *Server) Retire(ctx context.Context, hurry <-chan struct{}) error {
	s.Leave()
	s.slots.close()
	_ = s.socket.Close() // net/http closes it again, and gets an error
	// A client that got Connection: close becomes idle at most once more.
	grace := time.NewTimer(max(2*s.config.Limits.withDefaults().Idle, time.Second))
	defer grace.Stop()
	select {
	case <-grace.C:
	case <-hurry:
	case <-ctx.Done():
	}
	return s.Shutdown(ctx)
}

// Leave makes each response ask its client to disconnect from now on. New connections
// are still accepted.
func (s *Server) Leave() { s.retired.Store(true) }

// Shutdown closes the socket and idle connections, and waits for requests in progress.
// If ctx ends first, it cuts them off and returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Leave()
	s.slots.close()
	s.silent.close()
	s.drain(ctx)
	s.silent.close()
	s.stopping.Store(true)
	err := s.http.Shutdown(ctx)
	if ctx.Err() == nil {
		err = nil // the socket was already closed, which is not an error
	}
	err = cmp.Or(err, s.waitForAside(ctx))
	return errors.Join(err, s.Close())
}

// drain waits for handshakes in progress, as net/http waits for the first request of a
// connection: each can be a client with a request on its way.
func (s *Server) drain(ctx context.Context) {
	s.mu.Lock()
	hands := s.hands
	s.mu.Unlock()
	if hands == nil {
		return
	}
	_ = s.socket.Close() // which ends the accept loop
	patience := time.NewTimer(5 * time.Second)
	defer patience.Stop()
	select {
	case <-hands.over:
	case <-patience.C:
	case <-ctx.Done():
	}
}

// Close cuts off all connections and waits for the goroutines that Serve has started,
// but not for handlers.
func (s *Server) Close() error {
	s.Leave()
	s.slots.cutOff()
	s.stopping.Store(true)
	s.once.Do(func() { close(s.quit) })
	s.mu.Lock()
	if s.hands != nil {
		s.hands.cut()
	}
	s.mu.Unlock()
	s.cutOff()
	_ = s.socket.Close()
	s.running.Wait()
	return nil
}

// cutOff closes all connections.
func (s *Server) cutOff() {
	s.cut.Store(true)
	_ = s.http.Close() // errors from closing connections do not matter here
	s.mu.Lock()
	for c := range s.closing {
		c.cancelAll()
		_ = c.Conn.Close() // as above
	}
	s.mu.Unlock()
}

// remember records that c, which net/http has closed, ends later, or when all connections
// are cut off. It returns false if they are already cut off.
func (s *Server) remember(c *framedConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut.Load() {
		return false
	}
	s.closing[c] = struct{}{}
	return true
}

func (s *Server) forget(c *framedConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.closing, c)
}

// asideEnded wakes waitForAside, which checks the number again.
func (s *Server) asideEnded() {
	if !s.retired.Load() {
		return
	}
	select {
	case s.asideOver <- struct{}{}:
	default:
	}
}

// waitForAside returns when no request is being served without net/http and no connection
// lingers, or returns the error of ctx when that ends.
func (s *Server) waitForAside(ctx context.Context) error {
	defer s.asideEnded() // for other waiters
	for s.aside.Load() > 0 {
		select {
		case <-s.asideOver:
		case <-ctx.Done():
			return cmp.Or(ctx.Err(), context.Canceled)
		}
	}
	return nil
}
