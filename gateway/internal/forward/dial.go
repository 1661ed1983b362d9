package forward

import (
	"context"
	"net"
	"net/netip"
	"time"
)

const (
	// nextAddress is the pause before the next address is tried as well (RFC 8305, section 5).
	nextAddress = 250 * time.Millisecond
	// maxAddresses is how many addresses of a name are used.
	maxAddresses = 64
)

// A dialer connects to the first address of a name that accepts a connection.
type dialer struct {
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	one    func(ctx context.Context, network, address string) (net.Conn, error)
}

func newDialer(r *net.Resolver) *dialer {
	if r == nil {
		r = net.DefaultResolver
	}
	return &dialer{lookup: r.LookupNetIP, one: new(net.Dialer).DialContext}
}

// dial connects to address. If its host is a name, it tries the name's addresses one after another, the families
// in turn, and does not wait for one that hangs (RFC 8305).
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if network != "tcp" || err != nil {
		return d.one(ctx, network, address)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return d.one(ctx, network, address)
	}
	found, err := d.lookup(ctx, "ip", host)
	if err == nil && len(found) == 0 {
		err = &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	addresses := inTurn(found)
	return d.first(ctx, addresses[:min(len(addresses), maxAddresses)], port)
}

// first returns the first connection to one of addresses. The other attempts end. If none succeeds,
// it returns the error of the first address.
func (d *dialer) first(ctx context.Context, addresses []netip.Addr, port string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		nc  net.Conn
		err error
		i   int
	}
	results := make(chan result) // received below, until each attempt has ended
	begun, failed := 0, 0
	begin := func() {
		i := begun
		begun++
		go func() { // ends with ctx
			nc, err := d.one(ctx, "tcp", net.JoinHostPort(addresses[i].String(), port))
			results <- result{nc, err, i}
		}()
	}
	begin()
	next := time.NewTimer(nextAddress)
	defer next.Stop()
	var err error
	for {
		select {
		case <-next.C:
		case r := <-results:
			if r.err == nil {
				cancel()
				left := begun - failed - 1
				go func() { // ends with the attempts that cancel has ended
					for range left {
						if late := <-results; late.nc != nil {
							late.nc.Close()
						}
					}
				}()
				return r.nc, nil
			}
			if r.i == 0 {
				err = r.err
			}
			if failed++; failed == len(addresses) {
				return nil, err
			}
		}
		if begun < len(addresses) && ctx.Err() == nil {
			begin()
			next.Reset(nextAddress)
		} else if begun == failed {
			return nil, err
		}
	}
}

// inTurn returns addresses with the families in turn, in their order apart from that.
func inTurn(addresses []netip.Addr) []netip.Addr {
	var families [2][]netip.Addr
	first := addresses[0].Unmap().Is4()
	for _, a := range addresses {
		i := 0
		if a.Unmap().Is4() != first {
			i = 1
		}
		families[i] = append(families[i], a.Unmap())
	}
	var turn []netip.Addr
	for i := range addresses {
		for _, f := range families {
			if i < len(f) {
				turn = append(turn, f[i])
			}
		}
	}
	return turn
}
