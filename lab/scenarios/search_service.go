package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-go/weir/lab/scenario"
)

// A searchSetup is the database and the pool of the search service.
type searchSetup struct {
	URL  string
	Pool int
}

// The documents: each has wordsOf words, drawn by Zipf from a vocabulary. Searches
// are for two words of middling frequency, from firstWanted on.
const (
	vocabularySize = 2000
	wordsOf        = 24
	firstWanted    = 20
	wantedWords    = 40
)

// word is word i of the vocabulary: letters only, so that the parser of PostgreSQL
// leaves it as it is.
func word(i int) string {
	text := []byte("w")
	for range 3 {
		text = append(text, byte('a'+i%26))
		i /= 26
	}
	return string(text)
}

// wordsFor returns the two words of search key, as their numbers. Keys below 780 are for
// different pairs.
func wordsFor(key int) (a, b int) {
	apart := 1 + key/wantedWords
	a = key % wantedWords
	return firstWanted + a, firstWanted + (a+apart)%wantedWords
}

// searchFor is the text of search key.
func searchFor(key int) string {
	a, b := wordsFor(key)
	return word(a) + " " + word(b)
}

// fillDocuments creates the table, fills it, and indexes it. It returns how many rows
// have the words of each search. filled is called now and then, indexing once.
func fillDocuments(ctx context.Context, url string, rows, keys int, filled func(rows int), indexing func()) (totals []int, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect to fill the table: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `CREATE UNLOGGED TABLE documents (id int PRIMARY KEY, title text NOT NULL, body text NOT NULL,
		words tsvector GENERATED ALWAYS AS (to_tsvector('simple', body)) STORED)`); err != nil {
		return nil, fmt.Errorf("create the table: %w", err)
	}
	random, ranks := rand.New(rand.NewPCG(3, 4)), newRanks(vocabularySize, 1)
	totals = make([]int, keys)
	var text strings.Builder
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"documents"}, []string{"id", "title", "body"}, pgx.CopyFromSlice(rows, func(i int) ([]any, error) {
		if i%100_000 == 0 {
			filled(i)
		}
		var has [wantedWords]bool
		text.Reset()
		for n := range wordsOf {
			w := ranks.draw(random)
			if w >= firstWanted && w < firstWanted+wantedWords {
				has[w-firstWanted] = true
			}
			if n > 0 {
				text.WriteByte(' ')
			}
			text.WriteString(word(w))
		}
		for key := range totals {
			if a, b := wordsFor(key); has[a-firstWanted] && has[b-firstWanted] {
				totals[key]++
			}
		}
		return []any{int32(i), fmt.Sprintf("Document %d", i), text.String()}, nil
	}))
	if err != nil {
		return nil, fmt.Errorf("fill the table: %w", err)
	}
	indexing()
	for _, statement := range []string{"CREATE INDEX ON documents USING gin (words) WITH (fastupdate = off)", "VACUUM ANALYZE documents"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
	}
	return totals, nil
}

// searchStatement ranks every row that matches, as a search does. Equal ranks are ordered
// by id, so a search has one right response.
const searchStatement = `WITH found AS MATERIALIZED (
	SELECT id, title, ts_rank(words, q) AS rank FROM documents, plainto_tsquery('simple', $1) AS q WHERE words @@ q)
	SELECT (SELECT count(*) FROM found), id, title, rank FROM found ORDER BY rank DESC, id LIMIT $2`

// A searchRequest is the body of a request to the search service.
type searchRequest struct {
	Query string `json:"query"`
	Size  int    `json:"size"`
}

// maxSearch bounds the body of a request.
const maxSearch = 64 << 10

// A foundRow is a row of a response.
type foundRow struct {
	ID    int32   `json:"id"`
	Title string  `json:"title"`
	Rank  float32 `json:"rank"`
}

// searchService serves POST /search over the table. The other variants are weir proxy.
func searchService(ctx context.Context, o scenario.Options) (*scenario.Service, error) {
	if o.Variant != theSearch {
		return proxyService(ctx, o)
	}
	var set searchSetup
	if err := o.Decode(&set); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(set.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns = int32(set.Pool), int32(set.Pool)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &searcher{pool: pool, meter: new(scenario.Meter)}
	return &scenario.Service{Handler: s, Meter: s.meter, Close: pool.Close}, nil
}

// A searcher is the handler of the search service. A request waits for a connection of
// the pool until its client leaves.
type searcher struct {
	pool  *pgxpool.Pool
	meter *scenario.Meter
}

func (s *searcher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q searchRequest
	if r.Method != http.MethodPost || r.URL.Path != "/search" {
		http.Error(w, "want POST /search", http.StatusNotFound)
		return
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSearch)).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	total, rows, err := s.search(r.Context(), q)
	if err != nil {
		answerError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(struct { //nolint:errcheck // the client has left
		Total int        `json:"total"`
		Rows  []foundRow `json:"rows"`
	}{total, rows})
}

// search runs the query, which the meter counts from the time that it has a connection.
func (s *searcher) search(ctx context.Context, q searchRequest) (total int, all []foundRow, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer conn.Release()
	defer s.meter.Begin()()
	rows, err := conn.Query(ctx, searchStatement, q.Query, q.Size)
	if err != nil {
		return 0, nil, err
	}
	var f foundRow
	_, err = pgx.ForEachRow(rows, []any{&total, &f.ID, &f.Title, &f.Rank}, func() error {
		all = append(all, f)
		return nil
	})
	return total, all, err
}
