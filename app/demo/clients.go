package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// maxAnswer limits a response, in bytes; a row has about a hundred.
	maxAnswer = 1 << 20

	// RequestTimeout is how long a client waits for a response. A request that takes longer
	// fails.
	RequestTimeout = 30 * time.Second

	// Skew is the exponent of the Zipf law of the keys: the
	// busiest of 32 keys gets about a quarter of the requests.
	Skew = 1.1
)

// clients ask a service over HTTP, each on its own connection and in its own order of keys.
// The orders depend only on the seed, so they are the same on every level.
type clients struct {
	http  *http.Client
	urls  []string // by key
	right *references
	all   []client     // by number
	wrong atomic.Int64 // wrong responses; an atomic because all clients count here
}

// A client is one of them; only one goroutine at a time uses it.
type client struct {
	keys *rand.Zipf
	body bytes.Buffer
}

func newClients(n int, seed uint64, base string, right *references) *clients {
	c := &clients{
		http: &http.Client{Transport: &http.Transport{
			DialContext:         fromManyAddresses(),
			MaxIdleConnsPerHost: n,
			DisableCompression:  true,
		}},
		urls:  make([]string, right.len()),
		right: right,
		all:   make([]client, n),
	}
	for key := range c.urls {
		c.urls[key] = answerURL(base, key)
	}
	for i := range c.all {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		c.all[i].keys = rand.NewZipf(r, Skew, 1, uint64(len(c.urls)-1))
	}
	return c
}

// addresses is how many the connections of the clients come from, as those of real clients
// do: a gateway may not let clients share what could depend on their address.
const addresses = 1000

// fromManyAddresses returns a dialer of which each connection comes from the next of the
// addresses 127.1.0.1 to 127.1.3.250. Where loopback has 127.0.0.1 alone, all come from there.
func fromManyAddresses() func(ctx context.Context, network, address string) (net.Conn, error) {
	var last atomic.Uint32
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		i := last.Add(1) % addresses
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(i/250), byte(1+i%250))}}
		conn, err := d.DialContext(ctx, network, address)
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		return conn, err
	}
}

// ask sends the client's next request and checks the answer. It is a
// load.Func.
func (c *clients) ask(ctx context.Context, number int) error {
	me := &c.all[number]
	key := int(me.keys.Uint64())
	ctx, cancel := context.WithTimeoutCause(ctx, RequestTimeout,
		fmt.Errorf("no response within %v", RequestTimeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.urls[key], nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return plain(ctx, err)
	}
	defer resp.Body.Close()
	me.body.Reset()
	if _, err := me.body.ReadFrom(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return plain(ctx, err)
	}
	switch body := me.body.Bytes(); {
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(body)))
	case !c.right.match(key, body):
		c.wrong.Add(1)
		return fmt.Errorf("the response for key %d belongs to another key", key)
	}
	return nil
}

// plain removes the URL, which does not help here, and uses the cause if the context ended.
func plain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// close closes the connections.
func (c *clients) close() { c.http.CloseIdleConnections() }

// references holds the hash of each key's correct response.
type references struct {
	seed maphash.Seed
	sums []uint64 // by key
}

func newReferences(keys int) *references {
	return &references{seed: maphash.MakeSeed(), sums: make([]uint64, keys)}
}

func (r *references) len() int { return len(r.sums) }

func (r *references) set(key int, body []byte) { r.sums[key] = maphash.Bytes(r.seed, body) }

func (r *references) match(key int, body []byte) bool {
	return maphash.Bytes(r.seed, body) == r.sums[key]
}
