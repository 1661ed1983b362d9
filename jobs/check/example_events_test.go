package jobs_test

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
	"sync"
	"syscall"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// An Order is an ordered item and its customer.
type Order struct {
	Number int
	Email  string
}

// sendMail stands in for the second service.
func sendMail(ctx context.Context, to, text string) error {
	log.Println("mail to", to, text)
	return nil
}

// A shop takes orders, and sends the mail later. This example is compiled but not
// run.
func Example_events() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	server, err := embedded.Start(embedded.Options{Dir: "events"})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close(context.Background())
	conn, err := server.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	store, err := jobs.Open(ctx, conn, jobs.StoreOptions{Durability: server.Durability()})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close(context.Background())
	log.Println("what is accepted survives:", store.Durability())

	orders, err := jobs.NewQueue[Order, struct{}](ctx, store, "orders", jobs.QueueOptions{ResultTTL: jobs.None})
	if err != nil {
		log.Fatal(err)
	}
	worker, err := orders.Work(func(ctx context.Context, job *jobs.Job[Order]) (none struct{}, err error) {
		return none, sendMail(ctx, job.Input.Email, fmt.Sprintf("about order %d", job.Input.Number))
	}, jobs.WorkerOptions{})
	if err != nil {
		log.Fatal(err)
	}

	http.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		var order Order
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, err := orders.Submit(r.Context(), order, jobs.SubmitOptions{Key: strconv.Itoa(order.Number)})
		var full *jobs.FullError
		switch {
		case errors.As(err, &full):
			w.Header().Set("Retry-After", strconv.Itoa(int(full.RetryAfter.Seconds())+1))
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	shop := &http.Server{Addr: "127.0.0.1:8080"}
	served := make(chan error, 1)
	go func() { served <- shop.ListenAndServe() }()

	select {
	case err := <-served: // such as an address that is in use
		log.Print(err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := shop.Shutdown(drain); err != nil { // first: nothing is submitted any more
		log.Print(err)
	}
	if err := worker.Close(drain); err != nil { // what runs ends, or is handed back
		log.Print(err)
	}
}

// A provider stands in for a service that accepts each message once: it drops a
// second message with the same name.
type provider struct{ sent sync.Map }

func (p *provider) send(name, text string) {
	if _, again := p.sent.LoadOrStore(name, true); !again {
		fmt.Println("sent:", text)
	}
}

// A table stands in for a table in a database.
type table struct {
	mu    sync.Mutex
	rows  map[string]string
	fence map[string]uint64
}

// update is UPDATE orders SET state = $2, fence = $3 WHERE number = $1 AND fence <= $3.
func (t *table) update(number, state string, fence uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fence[number] > fence {
		return false
	}
	t.rows[number], t.fence[number] = state, fence
	return true
}

// A handler's effects elsewhere use the job's ID, which is the same in each attempt,
// or the attempt's Fence, which grows.
func ExampleJob_repeatable() {
	ctx := context.Background()
	store, end := exampleStore()
	defer end()
	orders, err := jobs.NewQueue[Order, struct{}](ctx, store, "orders", jobs.QueueOptions{
		ResultTTL: jobs.None, RetryInitial: time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	var mails provider
	book := table{rows: make(map[string]string), fence: make(map[string]uint64)}
	done := make(chan bool)

	handle := func(ctx context.Context, job *jobs.Job[Order]) (none struct{}, err error) {
		mails.send(job.ID, fmt.Sprintf("about order %d", job.Input.Number))
		if !book.update(job.Key, "mailed", job.Fence) {
			return none, errors.New("a later attempt was here before")
		}
		if job.Attempt == 1 {
			return none, errors.New("the connection broke just now")
		}
		close(done)
		return none, nil
	}
	worker, err := orders.Work(handle, jobs.WorkerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close(ctx)

	_, err = orders.Submit(ctx, Order{Number: 7}, jobs.SubmitOptions{Key: "7"})
	if err != nil {
		log.Fatal(err)
	}
	<-done
	fmt.Println("order 7 is", book.rows["7"])
	// Output:
	// sent: about order 7
	// order 7 is mailed
}

// The dead list of a queue of events: look, repair the cause, queue again.
func ExampleStore_List() {
	ctx := context.Background()
	store, end := exampleStore()
	defer end()
	orders, err := jobs.NewQueue[Order, struct{}](ctx, store, "orders", jobs.QueueOptions{
		ResultTTL: jobs.None, MaxAttempts: 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	worker, err := orders.Work(func(ctx context.Context, job *jobs.Job[Order]) (none struct{}, err error) {
		return none, errors.New("no such mailbox")
	}, jobs.WorkerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	job, err := orders.Submit(ctx, Order{Number: 7}, jobs.SubmitOptions{Key: "7"})
	if err != nil {
		log.Fatal(err)
	}
	job.Wait(ctx)
	worker.Close(ctx)

	dead, err := store.List(ctx, jobs.Filter{Queue: "orders", States: []jobs.State{jobs.StateDead}})
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range dead {
		fmt.Println("order", d.Key, "-", d.Error)
		if err := store.Retry(ctx, d.Queue, d.ID); err != nil { // or store.Drop
			log.Fatal(err)
		}
	}
	status, err := job.Status(ctx)
	fmt.Println("now", status.State, err)
	// Output:
	// order 7 - no such mailbox
	// now queued <nil>
}
