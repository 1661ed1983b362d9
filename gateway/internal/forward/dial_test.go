package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// All addresses of a name are tried, the families in turn, and none is waited for that hangs (RFC 8305).
func TestH37_DiallingTriesAllAddresses(t *testing.T) {
	refused := errors.New("refused")
	names := func(text ...string) (list []netip.Addr) {
		for _, s := range text {
			list = append(list, netip.MustParseAddr(s))
		}
		return list
	}
	for _, tt := range []struct {
		name      string
		addresses []netip.Addr
		dials     map[string]error // absent: it hangs; nil: it connects
		want      string
		took      time.Duration
		tried     []string
	}{
		{"the first", names("10.0.0.1", "10.0.0.2"), map[string]error{"10.0.0.1": nil}, "10.0.0.1", 0, []string{"10.0.0.1"}},
		{"one refuses", names("10.0.0.1", "10.0.0.2"), map[string]error{"10.0.0.1": refused, "10.0.0.2": nil}, "10.0.0.2", 0, []string{"10.0.0.1", "10.0.0.2"}},
		{"one hangs", names("10.0.0.1", "10.0.0.2"), map[string]error{"10.0.0.2": nil}, "10.0.0.2", 250 * time.Millisecond, []string{"10.0.0.1", "10.0.0.2"}},
		{"IPv6 hangs", names("fd00::1", "fd00::2", "fd00::3", "10.0.0.1"), map[string]error{"10.0.0.1": nil}, "10.0.0.1", 250 * time.Millisecond, []string{"fd00::1", "10.0.0.1"}},
		{"mapped", names("::ffff:10.0.0.1"), map[string]error{"10.0.0.1": nil}, "10.0.0.1", 0, []string{"10.0.0.1"}},
		{"all refuse", names("10.0.0.1", "10.0.0.2"), map[string]error{"10.0.0.1": refused, "10.0.0.2": errors.New("second")}, "", 0, []string{"10.0.0.1", "10.0.0.2"}},
		{"all hang", names("10.0.0.1", "10.0.0.2"), nil, "", 5 * time.Second, []string{"10.0.0.1", "10.0.0.2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tried []string
				d := &dialer{
					lookup: func(context.Context, string, string) ([]netip.Addr, error) { return tt.addresses, nil },
					one: func(ctx context.Context, _, address string) (net.Conn, error) {
						host, port, _ := net.SplitHostPort(address)
						if port != "3000" {
							t.Errorf("port %s; want 3000", port)
						}
						tried = append(tried, host)
						if err, ok := tt.dials[host]; ok {
							c, _ := net.Pipe()
							return addressed{c, host}, err
						}
						<-ctx.Done()
						return nil, ctx.Err()
					},
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				began := time.Now()
				nc, err := d.dial(ctx, "tcp", "shop.internal:3000")
				got := ""
				if err == nil {
					got = nc.(addressed).host
					nc.Close()
				}
				if got != tt.want || time.Since(began) != tt.took || !slices.Equal(tried, tt.tried) {
					t.Errorf("dial = %q, %v after %v, tried %v; want %q after %v, tried %v", got, err, time.Since(began), tried, tt.want, tt.took, tt.tried)
				}
				if tt.name == "all refuse" && !errors.Is(err, refused) {
					t.Errorf("error %v; want that of the first address", err)
				}
				synctest.Wait()
			})
		})
	}
}

type addressed struct {
	net.Conn
	host string
}

// However many addresses a name has, a bounded number is tried.
func TestH37_DiallingIsBounded(t *testing.T) {
	var many []netip.Addr
	for i := range 200 {
		many = append(many, netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", i)))
	}
	tried := 0
	d := &dialer{
		lookup: func(context.Context, string, string) ([]netip.Addr, error) { return many, nil },
		one:    func(context.Context, string, string) (net.Conn, error) { tried++; return nil, errors.New("refused") },
	}
	if _, err := d.dial(t.Context(), "tcp", "shop.internal:80"); err == nil || tried != maxAddresses {
		t.Errorf("dial = %v after %d addresses; want an error after %d", err, tried, maxAddresses)
	}
	d.lookup = func(context.Context, string, string) ([]netip.Addr, error) { return nil, nil }
	var dns *net.DNSError
	if _, err := d.dial(t.Context(), "tcp", "shop.internal:80"); !errors.As(err, &dns) {
		t.Errorf("dial = %v; want a DNSError for a name without addresses", err)
	}
}
