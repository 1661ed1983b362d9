// Command bulk serves GET /products?id=1&id=2 with one query for all products that
// are not in memory. After a product's TTL, its row is sent again only if it has
// changed.
//
//	DATABASE_URL=postgres://... go run ./bulk
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/weir-go/weir"
	"github.com/weir-go/weir/weirhttp"
)

// A Product is a row of the table products.
type Product struct {
	ID    int    `json:"id"`
	Name  string `json:"name"`
	Cents int    `json:"cents"`
}

const maxProducts = 100 // per request

func newProducts(db *pgxpool.Pool) (*weir.Guard[int, Product], error) {
	// PostgreSQL's xmin changes with each update of the row, so it serves as the
	// version. A row whose version we already have comes without its columns.
	const query = `SELECT p.id, p.xmin::text, p.xmin::text = k.version,
			CASE WHEN p.xmin::text = k.version THEN '' ELSE p.name END,
			CASE WHEN p.xmin::text = k.version THEN 0 ELSE p.cents END
		FROM unnest($1::int[], $2::text[]) AS k(id, version) JOIN products p USING (id)`
	load := func(ctx context.Context, ids []int, prev []weir.Previous[Product]) (map[int]weir.Entry[Product], error) {
		versions := make([]string, len(ids))
		for i, p := range prev {
			versions[i] = p.Version
		}
		rows, err := db.Query(ctx, query, ids, versions)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		found := make(map[int]weir.Entry[Product], len(ids)) // a missing id means not found
		for rows.Next() {
			var e weir.Entry[Product]
			if err := rows.Scan(&e.Value.ID, &e.Version, &e.NotModified, &e.Value.Name, &e.Value.Cents); err != nil {
				return nil, err
			}
			found[e.Value.ID] = e
		}
		return found, rows.Err()
	}
	return weir.NewFrom(weir.Source[int, Product]{LoadEntries: load}, weir.Options{
		Name:         "products",
		TTL:          time.Minute,
		StaleIfError: time.Hour,
		NegativeTTL:  5 * time.Second,
	})
}

func newHandler(products *weir.Guard[int, Product]) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /products", func(w http.ResponseWriter, r *http.Request) {
		asked := r.URL.Query()["id"]
		if len(asked) > maxProducts {
			http.Error(w, "too many ids", http.StatusBadRequest)
			return
		}
		ids := make([]int, len(asked))
		for i, text := range asked {
			var err error
			if ids[i], err = strconv.Atoi(text); err != nil {
				http.Error(w, "an id is not a number", http.StatusBadRequest)
				return
			}
		}
		answer := []Product{}
		for _, product := range products.GetManySeq(r.Context(), ids) { // in the order of ids
			switch {
			case errors.Is(product.Err, weir.ErrNotFound):
			case product.Err != nil:
				weirhttp.Error(w, r, product.Err)
				return
			default:
				answer = append(answer, product.Value)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(answer)
	})
	return mux
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	products, err := newProducts(db)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: newHandler(products)}
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	log.Print("try http://127.0.0.1:8080/products?id=1&id=2; stop with ^C")
	<-ctx.Done()

	end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := errors.Join(server.Shutdown(end), products.Close(end)); err != nil {
		log.Print(err)
	}
}
