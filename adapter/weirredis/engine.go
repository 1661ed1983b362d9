package weirredis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/weir-go/weir/fleet"
)

// maxSent bounds the commands that wait for a response. It is below rueidis' room for
// them in one connection (2^ringScale): when that is full, rueidis waits for room and
// ignores deadlines.
const (
	maxSent   = 256
	ringScale = 9
)

// An engine is the Tier without its breaker. Its commands end with their response or
// their connection, whatever the context, so that a lease granted late can be given
// back.
type engine struct {
	fleet.BaseTier

	o    Options
	hub  *hub
	sent chan struct{} // has room for maxSent

	cancel context.CancelFunc // ends the background work
	work   sync.WaitGroup     // background work and commands

	mu     sync.Mutex
	client rueidis.Client // guarded by mu; nil until connected
	down   error          // guarded by mu: the reason if client is nil
	closed bool           // guarded by mu
}

var (
	_ fleet.Tier   = (*engine)(nil)
	_ fleet.Meter  = (*engine)(nil)
	_ fleet.Roster = (*engine)(nil)
)

var (
	errConnecting = errors.New("not connected yet")
	errClosed     = errors.New("the Tier is closed")
	errNoCluster  = errors.New("Options.Cluster is set, but the server is not part of a Cluster")
)

func newEngine(o Options) *engine {
	e := &engine{o: o, sent: make(chan struct{}, maxSent), down: errConnecting}
	e.hub = newHub(o)
	return e
}

// start connects, and begins tracking. It returns an error if the server rejects the
// connection. If the server does not respond in time, start continues in the
// background.
func (e *engine) start(ctx context.Context) error {
	life, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	first := make(chan error, 1)
	e.work.Go(func() { e.connect(life, first) })
	timer := time.NewTimer(e.o.DialTimeout)
	defer timer.Stop()
	select {
	case err := <-first:
		if err != nil && refused(err) {
			return err
		}
		if err != nil {
			return nil
		}
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return cmp.Or(context.Cause(ctx), context.Canceled)
	}
	select {
	case <-e.hub.ready:
	case <-timer.C:
	case <-ctx.Done():
		return cmp.Or(context.Cause(ctx), context.Canceled)
	}
	return nil
}

// connect creates the client, and retries until that succeeds. first gets the result
// of the first attempt. After that rueidis reconnects automatically.
func (e *engine) connect(ctx context.Context, first chan<- error) {
	for wait := minInterval; ; wait = min(2*wait, e.o.PingInterval) {
		client, err := e.dial()
		if err == nil {
			e.hub.start(ctx, client)
		}
		e.mu.Lock()
		e.client, e.down = client, err
		e.mu.Unlock()
		select {
		case first <- err:
		default: // only the first attempt has a receiver
		}
		if err == nil || !sleep(ctx, wait) {
			return
		}
	}
}

func (e *engine) dial() (rueidis.Client, error) {
	o := e.o.client()
	o.DisableCache = true
	client, err := rueidis.NewClient(o)
	if err != nil {
		if client != nil {
			client.Close()
		}
		return nil, err
	}
	if e.o.Cluster && client.Mode() != rueidis.ClientModeCluster { // rueidis accepts a single server
		client.Close()
		return nil, errNoCluster
	}
	return client, nil
}

// client returns the options that all connections share.
func (o Options) client() rueidis.ClientOption {
	c := rueidis.ClientOption{
		InitAddress: o.Addresses, TLSConfig: o.TLS,
		Username: o.Username, Password: o.Password, ClientName: o.ClientName,
		ForceSingleClient: !o.Cluster && o.Sentinel == nil,
		PipelineMultiplex: -1, // one connection
		RingScaleEachConn: ringScale, ReadBufferEachConn: 64 << 10, WriteBufferEachConn: 64 << 10,
		DisableRetry: true,
		// A goroutine reads each connection at all times, so that a connection that
		// ended while idle is replaced, and no command is lost on it.
		AlwaysPipelining: true,
		ClientSetInfo:    rueidis.DisableClientSetInfo, // needs one ACL right less
		// A connection that receives nothing for this long is closed.
		ConnWriteTimeout: max(o.PingInterval, o.Breaker.Deadline, fleet.DefaultDeadline),
		ClusterOption:    rueidis.ClusterOption{MaxMovedRedirections: 4},
	}
	c.Dialer.Timeout, c.Dialer.KeepAlive = o.DialTimeout, o.PingInterval
	if o.Credentials != nil {
		c.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (a rueidis.AuthCredentials, err error) {
			a.Username, a.Password, err = o.Credentials()
			return a, err
		}
	}
	if s := o.Sentinel; s != nil {
		c.Sentinel = rueidis.SentinelOption{
			Dialer: c.Dialer, TLSConfig: o.TLS, MasterSet: s.MasterSet,
			Username: s.Username, Password: s.Password, ClientName: o.ClientName,
			TopologyRefreshInterval: 5 * o.PingInterval,
		}
	}
	return c
}

// refused reports whether err is a permanent rejection by the server, and not a
// temporary one.
func refused(err error) bool {
	r, ok := rueidis.IsRedisErr(err)
	if !ok {
		return errors.Is(err, errNoCluster)
	}
	return !r.IsLoading() && !r.IsClusterDown() && !r.IsTryAgain()
}

// do runs one command, and repeats it if the first did nothing. It observes ctx until
// the command is sent.
func (e *engine) do(ctx context.Context, op string, run func(rueidis.Client) rueidis.RedisResult) (rueidis.RedisMessage, error) {
	fail := func(err error) (rueidis.RedisMessage, error) {
		return rueidis.RedisMessage{}, &fleet.UnavailableError{Op: op, Err: err}
	}
	select {
	case e.sent <- struct{}{}:
		defer func() { <-e.sent }()
	case <-ctx.Done():
		return rueidis.RedisMessage{}, cmp.Or(context.Cause(ctx), context.Canceled)
	}
	if ctx.Err() != nil {
		return rueidis.RedisMessage{}, context.Cause(ctx)
	}
	client, err := e.begin()
	if err != nil {
		return fail(err)
	}
	defer e.work.Done()
	m, err := run(client).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		return fail(e.explain(err))
	}
	return m, nil
}

// begin returns the client to use. The caller must then call e.work.Done.
func (e *engine) begin() (rueidis.Client, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return nil, errClosed
	case e.client == nil:
		return nil, e.down
	}
	e.work.Add(1)
	return e.client, nil
}

// explain adds a hint to an error that is caused by the options.
func (e *engine) explain(err error) error {
	if r, ok := rueidis.IsRedisErr(err); ok && !e.o.Cluster {
		if _, moved := r.IsMoved(); moved {
			return fmt.Errorf("%w (a node of a Cluster: Options.Cluster is not set)", err)
		}
	}
	return err
}

// close ends everything and waits for it.
func (e *engine) close() {
	e.mu.Lock()
	again := e.closed
	e.closed = true
	e.mu.Unlock()
	if again {
		return
	}
	if e.cancel != nil {
		e.cancel()
	}
	e.work.Wait()
	e.hub.stop()
	if e.client != nil { // no goroutine writes it any more
		e.client.Close()
	}
}

// sleep reports false if ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Abilities implements fleet.Tier. The hub checks its own connections with PINGs, and
// sends Lost and Reset.
func (e *engine) Abilities() fleet.Abilities {
	return fleet.Abilities{Meter: e, Ledger: e, Roster: e, Ping: e.Ping, KeepsPushes: true}
}
