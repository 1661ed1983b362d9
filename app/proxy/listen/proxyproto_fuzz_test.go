package listen_test

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/weir-go/weir/app/proxy/listen"
)

// A sent is a connection from a peer that has sent some bytes and closed its side.
type sent struct {
	net.Conn
	from net.Addr
	in   *bytes.Reader
}

func (s *sent) Read(p []byte) (int, error)       { return s.in.Read(p) }
func (s *sent) RemoteAddr() net.Addr             { return s.from }
func (s *sent) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
func (s *sent) SetReadDeadline(time.Time) error  { return nil }
func (s *sent) SetDeadline(time.Time) error      { return nil }
func (s *sent) SetWriteDeadline(time.Time) error { return nil }
func (s *sent) Close() error                     { return nil }

// one is a listener with one connection.
type one struct{ conn net.Conn }

func (o *one) Accept() (net.Conn, error) {
	if o.conn == nil {
		return nil, net.ErrClosed
	}
	c := o.conn
	o.conn = nil
	return c, nil
}
func (o *one) Close() error   { return nil }
func (o *one) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// A client on the peer's Unix socket has chosen its own path. For limits, logs and
// X-Forwarded-For it counts as the peer itself.
func TestH19_ClientWithoutAnIPAddressIsTheProxy(t *testing.T) {
	own := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 9}
	for name, family := range map[string]string{"stream": "\x31", "datagram": "\x32"} {
		head := "\r\n\r\n\x00\r\nQUIT\n\x21" + family + "\x00\xd8/run/a\u202e" + strings.Repeat("\x00", 207)
		l := listen.Proxied(&one{&sent{from: own, in: bytes.NewReader([]byte(head + "GET"))}}, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, time.Second)
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if string(got) != "GET" || err != nil || c.RemoteAddr().String() != own.String() {
			t.Errorf("%s: read %q, %v, from %v; want GET, from %v", name, got, err, c.RemoteAddr(), own)
		}
	}
}

// The bytes of an untrusted peer are read unchanged. A trusted peer has to send a
// header. The bytes after the header are the request, and the client's address is a
// valid address or the peer's own. Without a complete header nothing is read.
func FuzzProxyProtocol(f *testing.F) {
	const request = "GET / HTTP/1.1\r\n\r\n"
	from, to := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 80}
	six := &net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 1}
	for _, version := range []byte{1, 2} {
		for _, pair := range [][2]*net.TCPAddr{{from, to}, {six, six}} {
			h := proxyproto.HeaderProxyFromAddrs(version, pair[0], pair[1])
			b, err := h.Format()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b, []byte(request))
		}
	}
	const signature = "\r\n\r\n\x00\r\nQUIT\n"
	for _, s := range []string{
		"", "PROXY UNKNOWN\r\n", "PROXY UNKNOWN x y z\r\n", "PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n", "PROXY TCP4 01.2.3.4 5.6.7.8 1 2\r\n", "PROXY TCP6 ::1%lo ::1 1 2\r\n", "PROXY TCP4 1.2.3.4 5.6.7.8 65536 2\r\n", "PROXY TCP4\n", request,
		signature + "\x20\x00\x00\x00", signature + "\x21\x31\x00\xd8/run/a\u202e" + strings.Repeat("\x00", 207), signature + "\x21\x12\x00\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x00\x02",
		signature + "\x21\x11\xff\xff", signature + "\x21\x11\x00\x0f\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x00\x02\x04\x00\x00",
	} {
		f.Add([]byte(s), []byte(request))
	}
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, head, rest []byte) {
		all := append(bytes.Clone(head), rest...)
		for _, peer := range []string{"10.0.0.1", "192.0.2.9"} {
			own := &net.TCPAddr{IP: net.ParseIP(peer), Port: 9}
			c, err := listen.Proxied(&one{&sent{from: own, in: bytes.NewReader(all)}}, trusted, time.Second).Accept()
			if err != nil {
				t.Fatalf("Accept = %v; want the connection, whatever it says", err)
			}
			got, err := io.ReadAll(c)
			if peer != "10.0.0.1" {
				if err != nil || !bytes.Equal(got, all) || c.RemoteAddr() != net.Addr(own) {
					t.Errorf("%q from an untrusted peer is read as %q, %v, from %v; want it unchanged", all, got, err, c.RemoteAddr())
				}
				continue
			}
			if err != nil {
				if len(got) > 0 {
					t.Errorf("%q has a bad header (%v), and %q is read", all, err, got)
				}
				continue
			}
			used := all[:len(all)-len(got)]
			if !bytes.HasSuffix(all, got) || !bytes.HasPrefix(used, []byte("PROXY ")) && !bytes.HasPrefix(used, []byte(signature)) {
				t.Fatalf("%q is read as %q; want the bytes after a header", all, got)
			}
			switch {
			case used[0] == 'P' && (len(used) > 107 || bytes.Count(used, []byte("\n")) != 1 || !bytes.HasSuffix(used, []byte("\r\n"))):
				t.Errorf("%q is treated as a header of version 1", used)
			case used[0] != 'P' && (len(used) < 16 || len(used) != 16+int(used[14])<<8+int(used[15])):
				t.Errorf("%q is treated as a header of version 2, but its length differs", used)
			}
			remote, err := netip.ParseAddrPort(c.RemoteAddr().String())
			if err != nil || remote.Addr().Zone() != "" {
				t.Errorf("after %q the client is %v; want an address", used, c.RemoteAddr())
			}
			if words := strings.Fields(string(used)); words[0] == "PROXY" && strings.HasPrefix(words[1], "TCP") && remote.Addr() != netip.MustParseAddr(words[2]).Unmap() && remote.Addr() != netip.MustParseAddr(words[2]) {
				t.Errorf("after %q the client is %v", used, remote)
			}
		}
	})
}
