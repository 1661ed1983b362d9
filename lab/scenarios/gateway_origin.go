package scenarios

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/lab/scenario"
)

// Shared parts of the gateway scenarios: one origin, with weir, nginx, Varnish and
// Caddy in front of it, each in its own process.

// An originSetup configures the origin of the gateway scenarios.
type originSetup struct {
	Wait    time.Duration // duration of a slow response
	Permits int           // number of concurrent calls to /busy and /aged; the others wait
	Work    time.Duration // duration of each of these
}

// The first part of the path selects the kind of the origin's response. The rest
// distinguishes responses of one kind.
type originAnswer struct {
	waits  float64 // times Wait
	works  bool    // it takes a permit
	keep   string  // Cache-Control
	chunks int     // after the first, each a tenth of a second after the previous one
	sized  bool    // the number in the path selects its length
	reads  bool    // it waits for the request's body
	big    bool    // its body has bigBytes
}

const (
	forAnHour = "max-age=3600"
	// briefly makes a response fresh for one second, and usable on errors for an hour
	// after that.
	briefly = "max-age=1, stale-if-error=3600"
)

var originAnswers = map[string]originAnswer{
	"kept":    {keep: forAnHour},
	"slow":    {keep: forAnHour, waits: 1},
	"slower":  {keep: forAnHour, waits: 2},
	"trickle": {keep: forAnHour, waits: 1, chunks: 10},
	"private": {keep: "no-store", waits: 2},
	"brief":   {keep: briefly},
	"busy":    {keep: "no-store", works: true},
	"aged":    {keep: briefly, works: true},
	"object":  {keep: forAnHour, sized: true},
	"upload":  {keep: "no-store", reads: true},
	"big":     {keep: "no-store", big: true},
}

// originJSON is the body of most responses: 146 bytes, as small as those of many
// APIs.
const originJSON = `{"id":"b7f6a1c04e","title":"The Weir Keeper","author":"A. Mill","year":1911,"price":{"amount":1250,"currency":"EUR"},"stock":17,"tags":["river"]}` + "\n"

// originSays is text that only such a body contains, for load.Spec.ExpectBody.
const originSays = `"title":"The Weir Keeper"`

// objectBytes is the length of the body of /object/n.
func objectBytes(n int) int { return 1024 * (1 + n%3) }

// An originServer is the expensive service behind the gateways.
type originServer struct {
	originSetup
	meter   scenario.Meter
	permits chan struct{}
}

func originService(o scenario.Options) (*scenario.Service, error) {
	s := new(originServer)
	if err := o.Decode(&s.originSetup); err != nil {
		return nil, err
	}
	s.permits = make(chan struct{}, max(1, s.Permits))
	return &scenario.Service{Handler: s, Meter: &s.meter}, nil
}

// ServeHTTP sends the response that the path selects. A call ends when its caller
// leaves.
func (s *originServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	a, ok := originAnswers[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if a.works {
		select {
		case s.permits <- struct{}{}:
			defer func() { <-s.permits }()
		case <-r.Context().Done():
			return
		}
	}
	defer s.meter.Begin()()
	wait := time.Duration(a.waits * float64(s.Wait))
	if a.works {
		wait = s.Work
	}
	if wait > 0 && !rest(r.Context(), wait) {
		return
	}
	if a.reads {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // the client has left
		}
	}
	if a.big {
		writeBig(w)
		return
	}
	body := originJSON
	if n, err := strconv.Atoi(id); err == nil && a.sized {
		body = strings.Repeat("w", objectBytes(n))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", a.keep)
	w.Header().Set("Content-Length", strconv.Itoa((1+a.chunks)*len(body)))
	fmt.Fprint(w, body) //nolint:errcheck // the client is gone
	for range a.chunks {
		http.NewResponseController(w).Flush() //nolint:errcheck // as above
		if !rest(r.Context(), 100*time.Millisecond) {
			return
		}
		fmt.Fprint(w, body) //nolint:errcheck // as above
	}
}

// bigBytes is the length of the body of /big: more than the socket buffers between
// the origin and a client hold.
const bigBytes = 50 << 20

var bigPiece = make([]byte, 64<<10)

func writeBig(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(bigBytes))
	for range bigBytes / len(bigPiece) {
		if _, err := w.Write(bigPiece); err != nil {
			return // the client has left
		}
	}
}

// rest returns true after d, or false as soon as ctx ends.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
