package weirredis_test

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
)

// A Product is a value of the service in the examples.
type Product struct {
	ID    string
	Price int
}

// expensive stands for a query, or a call of another service.
func expensive(ctx context.Context, id string) (Product, error) {
	log.Println("load", id)
	return Product{ID: id, Price: 100}, nil
}

// A service with any number of instances, which share one load.
func Example() {
	tier, err := weirredis.New(context.Background(), weirredis.Options{Addresses: []string{"127.0.0.1:6379"}})
	if err != nil {
		log.Fatal(err) // the options are wrong; a server that is down is not an error
	}
	defer tier.Close(context.Background())

	products, err := weir.New(expensive, weir.Options{
		Name:         "products",
		TTL:          time.Minute,
		StaleIfError: time.Hour,
		Fleet:        weir.Fleet{Config: fleet.Config{Tier: tier}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer products.Close(context.Background())

	http.HandleFunc("GET /products/{id}", func(w http.ResponseWriter, r *http.Request) {
		p := products.GetResult(r.Context(), r.PathValue("id"))
		if p.Err != nil {
			http.Error(w, p.Err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("X-From", p.Source.String())
		_ = json.NewEncoder(w).Encode(p.Value) // fails if the client has left
	})
	http.HandleFunc("DELETE /products/{id}", func(w http.ResponseWriter, r *http.Request) {
		if err := products.Invalidate(r.Context(), r.PathValue("id")); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable) // applied here only: try again
		}
	})
	log.Println(http.ListenAndServe("127.0.0.1:8080", nil))
}

// The source accepts 500 calls per second, from all instances together.
func ExampleTier_limit() {
	tier, err := weirredis.New(context.Background(), weirredis.Options{Addresses: []string{"127.0.0.1:6379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer tier.Close(context.Background())

	calls, err := quota.NewLimiter(tier, quota.LimiterOptions{
		Key: fleet.Key{Namespace: "limits", Name: "products"},
		Terms: quota.Terms{
			Name:      "products",
			Rate:      fleet.Rate{Permits: 500, Per: time.Second, Burst: 100},
			OnFailure: quota.FailLocalShare, Instances: 3, // while Redis is unreachable, a third for each
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer calls.Close(context.Background())

	products, err := weir.New(expensive, weir.Options{
		Name: "products", TTL: time.Minute, Limiter: calls, Fleet: weir.Fleet{Config: fleet.Config{Tier: tier}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer products.Close(context.Background())
}
