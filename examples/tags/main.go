// Command tags serves the products of a category from PostgreSQL. Changing a product
// invalidates every page that shows it. The pages have a max-age with the time for
// which browsers and CDNs can still treat them as fresh.
//
//	DATABASE_URL=postgres://... go run ./tags
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
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

// A shop is the service: a database and the cached pages.
type shop struct {
	db    *pgxpool.Pool
	pages *weir.Guard[string, []Product] // by category
}

func newShop(db *pgxpool.Pool) (*shop, error) {
	s := &shop{db: db}
	var err error
	s.pages, err = weir.NewFrom(weir.Source[string, []Product]{LoadEntry: s.load}, weir.Options{
		Name:         "categories",
		TTL:          time.Minute,
		StaleIfError: time.Hour,
	})
	return s, err
}

// load returns the products of a category. They are tagged with each product, and with
// the category, because a new product would change the page.
func (s *shop) load(ctx context.Context, category string, _ weir.Previous[[]Product]) (weir.Entry[[]Product], error) {
	rows, err := s.db.Query(ctx, "SELECT id, name, cents FROM products WHERE category = $1 ORDER BY id", category)
	if err != nil {
		return weir.Entry[[]Product]{}, err
	}
	products, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Product])
	if err != nil {
		return weir.Entry[[]Product]{}, err
	}
	page := weir.Entry[[]Product]{Value: products, Tags: []string{"category:" + category}}
	for _, p := range products {
		page.Tags = append(page.Tags, productTag(p.ID))
	}
	return page, nil
}

func productTag(id int) string { return fmt.Sprintf("product:%d", id) }

func (s *shop) list(w http.ResponseWriter, r *http.Request) {
	page := s.pages.GetResult(r.Context(), r.PathValue("category"))
	if page.Err != nil {
		weirhttp.Error(w, r, page.Err)
		return
	}
	w.Header().Set("Cache-Control", fmt.Sprintf("max-age=%d", int(page.FreshFor.Seconds())))
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(page.Value)
}

// setPrice writes first and then invalidates. A load that began before the invalidation
// may have read the old price, and its result is not stored.
func (s *shop) setPrice(w http.ResponseWriter, r *http.Request) {
	id, err1 := strconv.Atoi(r.PathValue("id"))
	cents, err2 := strconv.Atoi(r.FormValue("cents"))
	if err := errors.Join(err1, err2); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, err := s.db.Exec(r.Context(), "UPDATE products SET cents = $2 WHERE id = $1", id, cents)
	if err == nil {
		err = s.pages.InvalidateTags(r.Context(), productTag(id))
	}
	if err != nil {
		weirhttp.Error(w, r, err)
	}
}

func (s *shop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /categories/{category}", s.list)
	mux.HandleFunc("PUT /products/{id}/price", s.setPrice)
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
	s, err := newShop(db)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: s.handler()}
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	log.Print("try http://127.0.0.1:8080/categories/desk; stop with ^C")
	<-ctx.Done()

	end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := errors.Join(server.Shutdown(end), s.pages.Close(end)); err != nil {
		log.Print(err)
	}
}
