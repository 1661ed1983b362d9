package pgtable_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/demo/pgtable"
)

func TestParseNeverShowsThePassword(t *testing.T) {
	const secret = "s3cret"
	for _, text := range []string{
		"",
		"s3cret",
		"host=localhost password=s3cret",
		"mysql://me:s3cret@localhost/db",
		"postgres://me:s3cret@localhost:port/db",
		"postgres://me:s3cret/@localhost:5432/db",
		"postgres://me:s3cret%@localhost:5432/db",
		"postgres://me@localhost:5432/db?password=s3cret&sslmode=s3cret",
		"postgres://me:s3cret@localhost:5432/db?sslmode=bad",
		"postgres://me:s3cret@localhost:5432/db?pool_max_conns=s3cret",
	} {
		_, err := pgtable.Parse(text)
		if !errors.Is(err, pgtable.ErrURL) {
			t.Errorf("Parse(%q) = %v; want %v", text, err, pgtable.ErrURL)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("Parse(%q) shows the password: %v", text, err)
		}
	}

	s, err := pgtable.Parse("postgresql://me:s3cret@localhost:5432/db?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Address(); got != "localhost:5432" {
		t.Errorf("Address = %q; want localhost:5432", got)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d"} {
		for _, v := range []any{s, &s, struct{ S pgtable.Server }{s}} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, secret) {
				t.Errorf("%s of %T shows the password: %s", verb, v, text)
			}
		}
	}
}

func TestCreateNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()

	s, err := pgtable.Parse("postgres://me:s3cret@" + addr + "/db")
	if err != nil {
		t.Fatal(err)
	}
	_, err = pgtable.Create(t.Context(), s, pgtable.Options{Rows: 1000, Keys: 2})
	want := "PostgreSQL at " + addr + ": cannot connect: connection refused; nothing listens there"
	if err == nil || err.Error() != want {
		t.Errorf("Create = %v; want %s", err, want)
	}
}

func TestCreateSomethingElseListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			_ = conn.Close()
		}
	}()
	s, err := pgtable.Parse("postgres://me:s3cret@" + l.Addr().String() + "/db?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	_, err = pgtable.Create(t.Context(), s, pgtable.Options{Rows: 1000, Keys: 2})
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) ||
		strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Create = %v; want one line that names %v", err, l.Addr())
	}
}
