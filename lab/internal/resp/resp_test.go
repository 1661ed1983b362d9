package resp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"testing"

	"github.com/weir-go/weir/lab/internal/resp"
)

// ask sends PING to a server that replies with those bytes and closes the connection.
func ask(t testing.TB, answer string) (any, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // ends with the listener
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		got := make([]byte, len("*1\r\n$4\r\nPING\r\n"))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "*1\r\n$4\r\nPING\r\n" {
			t.Errorf("sent %q, %v; want PING", got, err)
		}
		io.WriteString(c, answer)
	}()
	return resp.Ask(t.Context(), l.Addr().String(), "PING")
}

func TestDo(t *testing.T) {
	tests := []struct {
		answer string
		want   any
		err    error
	}{
		{"+PONG\r\n", "PONG", nil},
		{":-7\r\n", int64(-7), nil},
		{"$3\r\na\nb\r\n", "a\nb", nil},
		{"$0\r\n\r\n", "", nil},
		{"$-1\r\n", nil, nil},
		{"*-1\r\n", nil, nil},
		{"*3\r\n:1\r\n*1\r\n+x\r\n-ERR no\r\n", []any{int64(1), []any{"x"}, resp.Error("ERR no")}, nil},
		{"-ERR no\r\n", nil, resp.Error("ERR no")},
		{"$3\r\nabcd\r\n", nil, resp.ErrProtocol},
		{"$-2\r\n", nil, resp.ErrProtocol},
		{"$99999999999\r\n", nil, resp.ErrProtocol},
		{":x\r\n", nil, resp.ErrProtocol},
		{"\r\n", nil, resp.ErrProtocol},
		{"PONG\n", nil, resp.ErrProtocol},
		{"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", nil, resp.ErrProtocol},
		{"$3\r\nab", nil, io.EOF},
		{"", nil, io.EOF},
	}
	for _, tt := range tests {
		got, err := ask(t, tt.answer)
		if !reflect.DeepEqual(got, tt.want) || !errors.Is(err, tt.err) {
			t.Errorf("Do with the reply %q = %#v, %v; want %#v, %v", tt.answer, got, err, tt.want, tt.err)
		}
	}
}

func TestDoEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // the kernel accepts connections, but nothing replies
	ctx, cancel := context.WithCancel(t.Context())
	c, err := resp.Dial(ctx, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cancel()
	if v, err := c.Do(ctx, "PING"); err == nil {
		t.Errorf("Do after the end of its context = %v, nil; want an error", v)
	}
}

func FuzzDo(f *testing.F) {
	for _, seed := range []string{"+OK\r\n", "-ERR x\r\n", ":1\r\n", "$2\r\nhi\r\n", "*2\r\n$1\r\na\r\n:2\r\n", "*1\r\n*-1\r\n", "$-1\r\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		v, err := ask(t, answer)
		if err != nil && v != nil {
			t.Errorf("Do with the reply %q = %v, %v; want one of them", answer, v, err)
		}
	})
}
