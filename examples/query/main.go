// Command query serves GET /products/{id} from PostgreSQL through a Guard. Concurrent
// requests for a product share one query, and the result is fresh for ten seconds.
// While the database is slow or down, the last known product is served.
//
//	DATABASE_URL=postgres://... go run ./query
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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// A Product is a row of the table products.
type Product struct {
	ID    int    `json:"id"`
	Name  string `json:"name"`
	Cents int    `json:"cents"`
}

// newProducts returns the guarded query.
func newProducts(db *pgxpool.Pool) (*weir.Guard[int, Product], error) {
	limiter, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 8, Queue: 100})
	if err != nil {
		return nil, err
	}
	query := func(ctx context.Context, id int) (Product, error) {
		p := Product{ID: id}
		err := db.QueryRow(ctx, "SELECT name, cents FROM products WHERE id = $1", id).Scan(&p.Name, &p.Cents)
		if errors.Is(err, pgx.ErrNoRows) {
			return Product{}, weir.ErrNotFound
		}
		return p, err
	}
	return weir.New(query, weir.Options{
		Name:                 "products",
		TTL:                  10 * time.Second,
		StaleWhileRevalidate: 30 * time.Second,       // serve the old product while a new one is loaded
		StaleIfError:         10 * time.Minute,       // and while the database is down,
		SoftTimeout:          250 * time.Millisecond, // or slower than this
		NegativeTTL:          5 * time.Second,
		Limiter:              limiter,
	})
}

// newHandler returns a handler that serves the products. The client's context ends the
// wait for a query, but not the query itself, because other clients may wait for it.
func newHandler(products *weir.Guard[int, Product]) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /products/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("id"))
		if err != nil {
			http.Error(w, "the id is not a number", http.StatusBadRequest)
			return
		}
		product, err := products.Get(r.Context(), id)
		switch {
		case errors.Is(err, weir.ErrNotFound):
			http.NotFound(w, r)
		case err != nil:
			log.Printf("product %d: %v", id, err)
			weirhttp.Error(w, r, err)
		default:
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(product)
		}
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
	log.Print("try http://127.0.0.1:8080/products/1; stop with ^C")
	<-ctx.Done()

	end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := errors.Join(server.Shutdown(end), products.Close(end)); err != nil {
		log.Print(err)
	}
}
