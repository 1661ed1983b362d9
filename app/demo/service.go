package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/weir-go/weir/limit"
)

// headerTimeout limits how long the service waits for a request header.
const headerTimeout = 10 * time.Second

// A service answers GET /answers/{key} on its own loopback port. Its
// goroutines start in serve and with each connection; close stops them and
// waits.
type service struct {
	server  http.Server
	base    string         // http://127.0.0.1:port
	running sync.WaitGroup // Serve, and the requests in flight
}

func serve(answer answerer, keys int, contentType string) (*service, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the service: %w", err)
	}
	s := &service{base: "http://" + l.Addr().String()}
	mux := http.NewServeMux()
	mux.Handle("GET /answers/{key}", &answers{answer, keys, contentType, &s.running})
	s.server = http.Server{
		Handler:           mux,
		ReadHeaderTimeout: headerTimeout,
		// Errors reach a client and are counted there.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	s.running.Go(func() {
		_ = s.server.Serve(l) // ErrServerClosed; otherwise the clients fail and report it
	})
	return s, nil
}

// close ends all connections, and with them the contexts of their requests, and waits until
// the last handler has returned or ctx ends.
func (s *service) close(ctx context.Context) error {
	err := s.server.Close()
	done := make(chan struct{})
	go func() { // ends with the last handler, which the select below waits for
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		err = errors.Join(err, errors.New("a call to the source ignores its cancellation"))
	}
	if err != nil {
		return fmt.Errorf("close the service: %w", err)
	}
	return nil
}

// answers is the service's handler.
type answers struct {
	answer      answerer
	keys        int
	contentType string
	running     *sync.WaitGroup
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Serve is counted until close has ended it, so this is never the first Add during
	// close's Wait.
	a.running.Add(1)
	defer a.running.Done()
	key, err := strconv.Atoi(r.PathValue("key"))
	if err != nil || key < 0 || key >= a.keys {
		http.NotFound(w, r)
		return
	}
	body, err := a.answer(r.Context(), key)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", a.contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // a client that has gone needs no answer
}

// refuse writes the response that err means for a client.
func refuse(w http.ResponseWriter, err error) {
	code := http.StatusBadGateway
	if full, ok := errors.AsType[*limit.Error](err); ok {
		code = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(full.RetryAfter.Seconds()))))
	} else if errors.Is(err, context.DeadlineExceeded) {
		code = http.StatusGatewayTimeout
	}
	http.Error(w, err.Error(), code)
}
