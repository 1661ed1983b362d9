package scenarios

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	cache "github.com/Code-Hex/go-generics-cache"
	"golang.org/x/sync/singleflight"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var bookByID = scenario.Scenario{
	Name:  "book-by-id",
	Title: "One load for each book",
	Asks:  "A hundred readers request ten books, each of which takes 1 s to load. How often is each book loaded?",
	Published: &result.Published{
		Title: "highload-patterns: do once, return it to everyone",
		Setup: "GET /getBook/100: a book by its number, loaded once for all concurrent requests for it. No figures.",
	},
	Service: bookService,
	Run:     runBooks,
}

// The readers choose books by Zipf's law: the most popular one gets a third of the
// requests.
const (
	bookCount   = 10
	bookReaders = 100
	booksAsked  = 500
	bookSkew    = 1
)

func runBooks(ctx context.Context, l *scenario.Lab) error {
	loading := scenario.Size(l, time.Second, 50*time.Millisecond)
	var paths []string
	for id := range bookCount {
		paths = append(paths, fmt.Sprintf("/getBook/%d", id+100))
	}
	for _, variant := range []string{unprotected, cacheAlone, xsync, coalescing, cached} {
		s, err := l.Serve(ctx, variant, loading)
		if err != nil {
			return err
		}
		asked := load.Spec{URLs: paths, Pick: load.Zipf, Skew: bookSkew, Clients: bookReaders, Requests: booksAsked}
		if _, err := l.Measure(ctx, s, scenario.Job{Load: asked}); err != nil {
			return err
		}
		if err := s.Stop(); err != nil {
			return err
		}
	}
	judgeBooks(l)
	return nil
}

func judgeBooks(l *scenario.Lab) {
	before, once, kept := l.One(unprotected), l.One(coalescing), l.One(cached)
	for _, variant := range []string{coalescing, cached} {
		m := l.One(variant)
		l.Check(variant+": no request fails", m.Failures == 0, "%d of %d failed", m.Failures, m.Requests)
		l.Check(variant+": no reader gets the wrong book", m.Values[wrongBooks] == 0, "%.0f answers", m.Values[wrongBooks])
		l.Check(variant+": no book has two loads at once", m.Values[twice] == 0, "%.0f loads", m.Values[twice])
	}
	l.Check("unprotected: each request is a load", before.Source.Calls == before.Requests, "%d loads", before.Source.Calls)
	l.Check("coalescing: fewer loads than requests", once.Source.Calls < once.Requests, "%d loads", once.Source.Calls)
	l.Check("cached: one load for each book", float64(kept.Source.Calls) == kept.Values[different], "%d loads of %.0f books", kept.Source.Calls, kept.Values[different])
	l.CheckTime("cached: readers wait for one load, never for two", kept.Latency.Slowest < 1500, "%.0f ms", kept.Latency.Slowest)

	l.Row(result.NewRow("loads", "calls", result.Lower).Here(float64(before.Source.Calls), float64(kept.Source.Calls)))
	l.Row(result.NewRow("loads at once", "calls", result.Lower).Here(float64(before.Source.Most), float64(kept.Source.Most)))
	l.Row(result.NewRow("time for all requests", "s", result.Lower).Here(before.Seconds, kept.Seconds))
}

// Names of the counts of the service of book-by-id.
const (
	different  = "books asked for"
	wrongBooks = "answers with another book"
	twice      = "loads of a book that was being loaded"
)

// A shelf is the source: it loads books and records which ones.
type shelf struct {
	meter   scenario.Meter
	loading time.Duration // of one book

	mu    sync.Mutex
	now   map[string]int  // guarded by mu; running loads, by book
	asked map[string]bool // guarded by mu; books that were requested
	twice int             // guarded by mu
	wrong int             // guarded by mu
}

func (s *shelf) reset(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.asked, s.twice, s.wrong = make(map[string]int), make(map[string]bool), 0, 0
	return nil
}

func (s *shelf) values() map[string]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]float64{different: float64(len(s.asked)), wrongBooks: float64(s.wrong), twice: float64(s.twice)}
}

// load loads a book.
func (s *shelf) load(_ context.Context, id string) (string, error) {
	defer s.meter.Begin()()
	s.mu.Lock()
	if s.now[id]++; s.now[id] > 1 {
		s.twice++
	}
	s.mu.Unlock()
	time.Sleep(s.loading)
	s.mu.Lock()
	s.now[id]--
	s.mu.Unlock()
	return "book " + id, nil
}

// see records which book a reader requested and which it got.
func (s *shelf) see(id, book string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[id] = true
	if book != "book "+id {
		s.wrong++
	}
}

func bookService(_ context.Context, o scenario.Options) (*scenario.Service, error) {
	s := new(shelf)
	if err := o.Decode(&s.loading); err != nil {
		return nil, err
	}
	get := s.load
	switch o.Variant {
	case cacheAlone:
		kept := cache.New[string, string]()
		get = func(ctx context.Context, id string) (string, error) {
			if book, ok := kept.Get(id); ok {
				return book, nil
			}
			book, err := s.load(ctx, id)
			if err == nil {
				kept.Set(id, book, cache.WithExpiration(time.Minute))
			}
			return book, err
		}
	case xsync:
		var g singleflight.Group
		get = func(ctx context.Context, id string) (string, error) {
			v, err, _ := g.Do(id, func() (any, error) { return s.load(ctx, id) })
			if err != nil {
				return "", err
			}
			return v.(string), nil
		}
	case coalescing, cached:
		options := weir.Options{} // without a TTL nothing is stored
		if o.Variant == cached {
			options.TTL = time.Minute
		}
		g, err := weir.New(s.load, options)
		if err != nil {
			return nil, err
		}
		get = g.Get
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /getBook/{id}", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		book, err := get(r.Context(), id)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		s.see(id, book)
		fmt.Fprintln(w, book)
	})
	return &scenario.Service{Meter: &s.meter, Reset: s.reset, Values: s.values, Handler: mux}, nil
}
