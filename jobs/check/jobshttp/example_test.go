package jobshttp_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/jobs/jobshttp"
)

func Example() {
	dir, err := os.MkdirTemp("", "jobs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	server, err := embedded.Start(embedded.Options{Dir: filepath.Join(dir, "jobs")})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close(context.Background())
	conn, err := server.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	ctx := context.Background()
	store, err := jobs.Open(ctx, conn, jobs.StoreOptions{Durability: server.Durability()})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close(context.Background())

	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "the report") })
	service, err := jobshttp.New(store, jobshttp.Options{})
	if err != nil {
		log.Fatal(err)
	}
	report, err := service.Route(ctx, "report", slow, jobshttp.RouteOptions{})
	if err != nil {
		log.Fatal(err)
	}
	workers, err := report.Work(jobs.WorkerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer workers.Close(ctx)
	mux := http.NewServeMux()
	mux.Handle("/report", report)
	mux.Handle(service.Path(), service)

	site := httptest.NewServer(mux)
	defer site.Close()
	ask := func(path, prefer string) (*http.Response, string) {
		r, _ := http.NewRequest(http.MethodGet, site.URL+path, nil)
		r.Header.Set("Prefer", prefer)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp, string(body)
	}
	accepted, _ := ask("/report", "respond-async")
	_, body := ask(accepted.Header.Get("Location")+"/result", "wait=10")
	fmt.Println(accepted.Status, "then", body)
	// Output: 202 Accepted then the report
}
