package weirredis_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/fleet"
)

func unavailable(err error) bool { return errors.Is(err, fleet.ErrUnavailable) }

// A proxy stands between a Tier and a server: it counts commands, drops responses,
// and cuts connections.
type proxy struct {
	l        net.Listener
	target   string
	lose     atomic.Bool // drops the next responses to scripts, and closes their connections
	deaf     atomic.Bool // tracking connections deliver nothing
	cut      atomic.Bool // no connection is accepted
	commands atomic.Uint64
	work     sync.WaitGroup

	mu    sync.Mutex
	conns map[*proxied]bool // guarded by mu
}

// A proxied is one connection.
type proxied struct {
	near, far net.Conn
	silent    atomic.Bool // drops everything
	tracks    atomic.Bool
	asked     atomic.Bool // a script was sent
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, target: target, conns: make(map[*proxied]bool)}
	p.work.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.each((*proxied).close)
		p.work.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) accept() {
	for {
		near, err := p.l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.target)
		if err != nil || p.cut.Load() {
			_ = near.Close()
			if err == nil {
				_ = far.Close()
			}
			continue
		}
		c := &proxied{near: near, far: far}
		p.mu.Lock()
		p.conns[c] = true
		p.mu.Unlock()
		p.work.Go(func() { p.commandsOf(c) })
		p.work.Go(func() { p.answersOf(c) })
	}
}

func (c *proxied) close() {
	_ = c.near.Close()
	_ = c.far.Close()
}

func (p *proxy) each(fn func(*proxied)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		fn(c)
	}
}

func (p *proxy) end(c *proxied) {
	c.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// commandsOf forwards commands, one by one.
func (p *proxy) commandsOf(c *proxied) {
	defer p.end(c)
	r := bufio.NewReader(c.near)
	for {
		raw, command, err := readCommand(r)
		if err != nil {
			return
		}
		switch strings.ToUpper(command[0]) {
		case "EVALSHA", "EVAL", "HMGET":
			p.commands.Add(1)
			c.asked.Store(true)
		case "CLIENT":
			c.tracks.Store(c.tracks.Load() || command[1] == "TRACKING")
		}
		if c.silent.Load() {
			continue
		}
		if _, err := c.far.Write(raw); err != nil {
			return
		}
	}
}

// readCommand reads a command as clients send it: an array of bulk strings.
func readCommand(r *bufio.Reader) (raw []byte, command []string, err error) {
	var b bytes.Buffer
	number := func(sign byte) (n int, err error) {
		line, err := r.ReadString('\n')
		if err != nil || line[0] != sign {
			return 0, errors.Join(err, errors.New("not a command"))
		}
		b.WriteString(line)
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number('*')
	for ; n > 0 && err == nil; n-- {
		var size int
		if size, err = number('$'); err != nil {
			break
		}
		part := make([]byte, size+2)
		_, err = io.ReadFull(r, part)
		b.Write(part)
		command = append(command, string(part[:size]))
	}
	return b.Bytes(), append(command, "", ""), err
}

// answersOf forwards the server's responses.
func (p *proxy) answersOf(c *proxied) {
	defer p.end(c)
	b := make([]byte, 64<<10)
	for {
		n, err := c.far.Read(b)
		if err != nil {
			return
		}
		if p.lose.Load() && c.asked.Load() {
			return // the command was executed; its response is lost
		}
		if c.silent.Load() || c.tracks.Load() && p.deaf.Load() {
			continue
		}
		if _, err := c.near.Write(b[:n]); err != nil {
			return
		}
	}
}

// silence drops everything on the existing connections.
func (p *proxy) silence() { p.each(func(c *proxied) { c.silent.Store(true) }) }

// cutOff closes all connections, and accepts none until mend.
func (p *proxy) cutOff() {
	p.cut.Store(true)
	p.each((*proxied).close)
}

func (p *proxy) mend() { p.cut.Store(false) }
