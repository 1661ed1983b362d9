package jobs_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

func TestHandlerThatGoexitsFails(t *testing.T) {
	store, end := exampleStore()
	defer end()
	q, err := jobs.NewQueue[int, int](t.Context(), store, "q", jobs.QueueOptions{MaxAttempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	w, err := q.Work(func(context.Context, *jobs.Job[int]) (int, error) { runtime.Goexit(); return 1, nil }, jobs.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(t.Context())
	j, err := q.Submit(t.Context(), 1, jobs.SubmitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var dead *jobs.JobError
	if v, err := j.Wait(t.Context()); !errors.As(err, &dead) || !strings.Contains(dead.Message, "Goexit") {
		t.Errorf("Wait = %v, %v; want a dead job whose handler called runtime.Goexit", v, err)
	}
}

func TestClassifyThatPanicsIsTransient(t *testing.T) {
	store, end := exampleStore()
	defer end()
	q, err := jobs.NewQueue[int, int](t.Context(), store, "q", jobs.QueueOptions{
		MaxAttempts: 1, Classify: func(error) weir.Class { panic("no class") },
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := q.Work(func(context.Context, *jobs.Job[int]) (int, error) { return 0, errors.New("odd") }, jobs.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(t.Context())
	j, err := q.Submit(t.Context(), 1, jobs.SubmitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var dead *jobs.JobError
	if v, err := j.Wait(t.Context()); !errors.As(err, &dead) || dead.Message != "odd" {
		t.Errorf("Wait = %v, %v; want a dead job with the handler's error", v, err)
	}
}

func TestListWithANegativeLimitHasTheDefault(t *testing.T) {
	store, end := exampleStore()
	defer end()
	q, err := jobs.NewQueue[int, int](t.Context(), store, "q", jobs.QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Submit(t.Context(), 1, jobs.SubmitOptions{}); err != nil {
		t.Fatal(err)
	}
	if list, err := store.List(t.Context(), jobs.Filter{Limit: -1}); len(list) != 1 || err != nil {
		t.Errorf("List = %v, %v; want one job", list, err)
	}
}

// Submits that wait for an unreachable server fail together, not one after another.
func TestSubmitsFailTogetherWhenTheServerIsAway(t *testing.T) {
	const timeout, submitters = 500 * time.Millisecond, 64
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	store, err := jobs.Open(t.Context(), conn, jobs.StoreOptions{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(context.Background())
	q, err := jobs.NewQueue[int, int](t.Context(), store, "q", jobs.QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	<-time.After(2 * 100 * time.Millisecond) // by then the known state of the queue is stale
	began := time.Now()
	var all sync.WaitGroup
	for i := range submitters {
		all.Go(func() {
			if _, err := q.Submit(t.Context(), i, jobs.SubmitOptions{}); !errors.Is(err, jobs.ErrUnavailable) {
				t.Errorf("Submit = %v; want ErrUnavailable", err)
			}
		})
	}
	all.Wait()
	// One after another, they would take at least twice as long, on any machine.
	if took := time.Since(began); took > submitters*timeout/2 {
		t.Errorf("%d Submits took %v; want about the timeout of %v", submitters, took, timeout)
	}
}
