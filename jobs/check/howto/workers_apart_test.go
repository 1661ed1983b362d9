package howto_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// The programs of docs/howto/run-workers-apart.md.

// A Picture is the source of a thumbnail.
type Picture struct {
	URL   string
	Width int
}

// A Thumbnail is what has been made.
type Thumbnail struct{ File string }

// thumbnails is the queue, for both programs.
func thumbnails(ctx context.Context, store *jobs.Store) (*jobs.Queue[Picture, Thumbnail], error) {
	return jobs.NewQueue[Picture, Thumbnail](ctx, store, "thumbnails", jobs.QueueOptions{
		MaxAttempts:    5,
		AttemptTimeout: time.Minute,
	})
}

// serve is the program that accepts jobs, and keeps them.
func serve(ctx context.Context, l net.Listener) error {
	server, err := embedded.Start(embedded.Options{
		Dir:    os.Getenv("JOBS_DIR"),
		Listen: os.Getenv("JOBS_LISTEN"), // host:port, for the workers
		Token:  os.Getenv("JOBS_TOKEN"),
	})
	if err != nil {
		return err
	}
	defer server.Close(context.Background())
	nc, err := server.Connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	store, err := jobs.Open(ctx, nc, jobs.StoreOptions{Durability: server.Durability()})
	if err != nil {
		return err
	}
	defer store.Close(context.Background())
	queue, err := thumbnails(ctx, store)
	if err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.HandleFunc("POST /thumbnails", func(w http.ResponseWriter, r *http.Request) {
		width, _ := strconv.Atoi(r.FormValue("width"))
		p := Picture{URL: r.FormValue("url"), Width: width}
		job, err := queue.Submit(r.Context(), p, jobs.SubmitOptions{Key: fmt.Sprintf("%s@%d", p.URL, p.Width)})
		var full *jobs.FullError
		switch {
		case errors.As(err, &full):
			w.Header().Set("Retry-After", strconv.Itoa(int(full.RetryAfter.Seconds()+1)))
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			w.Header().Set("Location", "/thumbnails/"+job.ID())
			w.WriteHeader(http.StatusAccepted)
		}
	})
	mux.HandleFunc("GET /thumbnails/{id}", func(w http.ResponseWriter, r *http.Request) {
		status, err := queue.Job(r.PathValue("id")).Status(r.Context())
		if errors.Is(err, jobs.ErrNotFound) {
			http.NotFound(w, r)
			return
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(status) // a client that has left
	})
	web := &http.Server{Handler: mux}
	context.AfterFunc(ctx, func() { web.Close() })
	return web.Serve(l)
}

// work is the program that does them, until ctx ends.
func work(ctx context.Context) error {
	nc, err := nats.Connect(os.Getenv("JOBS_URL"), // nats://host:port
		nats.Token(os.Getenv("JOBS_TOKEN")),
		nats.MaxReconnects(-1), // a server that is away comes back
	)
	if err != nil {
		return err
	}
	defer nc.Close()
	store, err := jobs.Open(ctx, nc, jobs.StoreOptions{Durability: jobs.DurabilityDisk})
	if err != nil {
		return err
	}
	defer store.Close(context.Background())
	queue, err := thumbnails(ctx, store)
	if err != nil {
		return err
	}
	worker, err := queue.Work(resize, jobs.WorkerOptions{Concurrency: 4})
	if err != nil {
		return err
	}

	<-ctx.Done() // signal.NotifyContext, say
	stopping, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return worker.Close(stopping)
}

// resize makes one thumbnail.
func resize(ctx context.Context, job *jobs.Job[Picture]) (Thumbnail, error) {
	if !strings.HasPrefix(job.Input.URL, "https://") {
		return Thumbnail{}, jobs.Permanent(errors.New("not a picture of ours")) // no retry would mend it
	}
	for done := range int64(4) {
		job.Progress(jobs.Progress{Done: done, Total: 4})
		if ctx.Err() != nil { // canceled, or the worker stops
			return Thumbnail{}, context.Cause(ctx)
		}
	}
	// The same name in each attempt: one that comes twice does no harm.
	return Thumbnail{File: fmt.Sprintf("%s-%d.webp", job.ID, job.Input.Width)}, nil
}

// older reads inputs of version 0, which had no width.
func older(data []byte, version int) (Picture, error) {
	var p Picture
	err := json.Unmarshal(data, &p)
	if version == 0 {
		p.Width = 640
	}
	return p, err
}

// newer is the queue of a program that knows of widths.
func newer(ctx context.Context, store *jobs.Store) (*jobs.Queue[Picture, Thumbnail], error) {
	queue, err := jobs.NewQueue[Picture, Thumbnail](ctx, store, "thumbnails", jobs.QueueOptions{
		MaxAttempts:    5,
		AttemptTimeout: time.Minute,
		Version:        1, // of Picture, as this program writes it
	})
	if err != nil {
		return nil, err
	}
	in := jobs.JSON[Picture]()
	in.Decode = older
	return queue.WithCodecs(in, jobs.JSON[Thumbnail]()), nil
}

func TestHowtoWorkersApart(t *testing.T) {
	// The port must stay free, so it is on an address from which other tests take no
	// ports.
	free, err := net.Listen("tcp", "127.0.0.2:0")
	must(t, err)
	must(t, free.Close())
	t.Setenv("JOBS_DIR", t.TempDir())
	t.Setenv("JOBS_LISTEN", free.Addr().String())
	t.Setenv("JOBS_URL", "nats://"+free.Addr().String())
	t.Setenv("JOBS_TOKEN", "a token of the test")

	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, end := context.WithCancel(t.Context())
	served, worked := make(chan error, 1), make(chan error, 1)
	go func() { served <- serve(ctx, l) }()
	defer func() {
		end()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve = %v; want it closed", err)
		}
	}()

	post := func(picture string) string {
		t.Helper()
		res, err := http.Post("http://"+l.Addr().String()+"/thumbnails", "application/x-www-form-urlencoded", strings.NewReader(picture))
		must(t, err)
		res.Body.Close()
		if res.StatusCode != http.StatusAccepted {
			t.Fatalf("POST %s: %s; want 202", picture, res.Status)
		}
		return res.Header.Get("Location")
	}
	good, bad := post("url=https://a.example/1.png&width=320"), post("url=file:///etc/passwd")
	if again := post("url=https://a.example/1.png&width=320"); again != good {
		t.Errorf("the same picture is %s; want %s", again, good)
	}

	working, stop := context.WithCancel(t.Context())
	go func() { worked <- work(working) }()
	for where, want := range map[string]jobs.State{good: jobs.StateDone, bad: jobs.StateFailed} {
		if s := ends(t, "http://"+l.Addr().String()+where); s.State != want || s.Attempt != 1 {
			t.Errorf("%s is %s after %d attempts; want %s after 1", where, s.State, s.Attempt, want)
		}
	}
	stop()
	if err := <-worked; err != nil {
		t.Errorf("work = %v; want nil, because no job was running", err)
	}
}

// ends polls a job until it is finished.
func ends(t *testing.T, url string) jobs.Status {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-tick.C {
		res, err := http.Get(url)
		must(t, err)
		var s jobs.Status
		err = json.NewDecoder(res.Body).Decode(&s)
		res.Body.Close()
		must(t, err)
		if s.State.Terminal() {
			return s
		}
	}
	t.Fatalf("%s is not finished after 30 s", url)
	return jobs.Status{}
}

// Jobs of a newer producer wait for a newer worker, which also runs the older ones.
func TestHowtoTwoVersionsSideBySide(t *testing.T) {
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Durability: jobs.DurabilityProcess})
	must(t, err)
	defer server.Close(context.Background())
	nc, err := server.Connect()
	must(t, err)
	defer nc.Close()
	store, err := jobs.Open(t.Context(), nc, jobs.StoreOptions{Durability: jobs.DurabilityProcess})
	must(t, err)
	defer store.Close(context.Background())
	old, err := thumbnails(t.Context(), store)
	must(t, err)
	next, err := newer(t.Context(), store)
	must(t, err)

	back := handedBack{ids: make(chan string, 16)}
	oldWorker, err := old.Work(resize, jobs.WorkerOptions{Observer: back})
	must(t, err)
	of1, err := next.Submit(t.Context(), Picture{"https://a.example/1.png", 320}, jobs.SubmitOptions{})
	must(t, err)
	if id := <-back.ids; id != of1.ID() {
		t.Errorf("handed back %s; want %s", id, of1.ID())
	}
	must(t, oldWorker.Close(t.Context()))
	of0, err := old.Submit(t.Context(), Picture{URL: "https://a.example/2.png"}, jobs.SubmitOptions{})
	must(t, err)

	newWorker, err := next.Work(resize, jobs.WorkerOptions{})
	must(t, err)
	for h, want := range map[*jobs.Handle[Thumbnail]]string{of1: "-320.webp", of0: "-640.webp"} {
		if got, err := h.Wait(t.Context()); err != nil || got.File != h.ID()+want {
			t.Errorf("job %s: %v, %v; want %s", h.ID(), got, err, h.ID()+want)
		}
	}
	must(t, newWorker.Close(t.Context()))
}

// handedBack sends the IDs of jobs that were handed back, and drops IDs for which
// there is no room.
type handedBack struct {
	jobs.NopObserver
	ids chan string
}

func (h handedBack) Event(_ context.Context, e jobs.Event) {
	if e.Kind == jobs.EventHandedBack {
		select {
		case h.ids <- e.ID:
		default:
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
