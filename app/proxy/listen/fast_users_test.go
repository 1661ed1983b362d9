package listen_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/proxy/listen"
)

// H31: nothing of one request reaches another on the same connection, such as a gateway's in
// front of this one, which many users share. The fields that a response has are random, so that
// what is left of an earlier one shows.
func TestH31_UsersOfOneConnectionAreKeptApart(t *testing.T) {
	const requests, window = 20_000, 40
	s := serve(t, listen.Config{FastPath: true}, listen.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := r.Header.Get("Cookie")
		for _, name := range strings.Fields(r.Header.Get("X-Want")) {
			w.Header().Add(name, user)
		}
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, user+" "+strings.Join(r.Header["X-Only"], ","))
	})})
	rng := rand.New(rand.NewPCG(1, 2))
	c := dial(t, s)
	defer c.Close()
	in := bufio.NewReader(c)
	type request struct{ user, want, only string }
	for range requests / window {
		var sent []request
		var text strings.Builder
		for i := range window {
			q := request{user: fmt.Sprint("user-", rng.Uint64())}
			for _, name := range []string{"X-A", "X-B", "Set-Cookie", "X-A"} {
				if rng.IntN(2) == 0 {
					q.want += name + " "
				}
			}
			fmt.Fprintf(&text, "GET /%d HTTP/1.1\r\nHost: h\r\nCookie: %s\r\nX-Want: %s\r\n", i, q.user, q.want)
			if rng.IntN(2) == 0 {
				q.only = q.user
				fmt.Fprintf(&text, "X-Only: %s\r\n", q.only)
			}
			text.WriteString("\r\n")
			sent = append(sent, q)
		}
		if _, err := io.WriteString(c, text.String()); err != nil {
			t.Fatal(err)
		}
		for _, q := range sent {
			r, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(r.Body)
			if string(body) != q.user+" "+q.only {
				t.Fatalf("%s received the body %q", q.user, body)
			}
			for _, name := range []string{"X-A", "X-B", "Set-Cookie"} {
				got := r.Header[name]
				if want := strings.Count(q.want, name); len(got) != want {
					t.Fatalf("%s received %d %s; want %d", q.user, len(got), name, want)
				}
				for _, value := range got {
					if value != q.user {
						t.Fatalf("%s received %s of %s", q.user, name, value)
					}
				}
			}
		}
	}
	// A handler that panics after it has set fields leaves nothing to the next connection.
	for range 50 {
		c := dial(t, s)
		io.WriteString(c, "GET /panic HTTP/1.1\r\nHost: h\r\nCookie: secret\r\nX-Want: X-A\r\n\r\n")
		if b, _ := io.ReadAll(c); strings.Contains(string(b), "secret") {
			t.Fatalf("the response to a handler that panicked is %q", b)
		}
		c.Close()
	}
}
