package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/natstest"
)

// faultProgram is one version of a program: it writes inputs of its own version, and
// reads those of older ones.
func faultProgram(t *testing.T, nc *nats.Conn, version int) *faultQueue {
	t.Helper()
	q := faultNewQueue(t, faultStore(t, nc, jobs.StoreOptions{}), jobs.QueueOptions{Version: version})
	return q.WithCodecs(jobs.Codec[string]{
		Encode: func(s string) ([]byte, error) { return fmt.Appendf(nil, "v%d:%s", version, s), nil },
		Decode: func(data []byte, v int) (string, error) {
			s, ok := strings.CutPrefix(string(data), fmt.Sprintf("v%d:", v))
			if !ok || v > version {
				return "", fmt.Errorf("%q does not have version %d", data, v)
			}
			return s, nil
		},
	}, jobs.JSON[string]())
}

func TestFaultTwoVersionsSideBySide(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.Options{})
	var mu sync.Mutex
	by := make(map[string][]int) // versions that ran an input; guarded by mu
	var queues []*faultQueue
	var workers []*jobs.Worker
	for version := 1; version <= 2; version++ {
		q := faultProgram(t, server.Connect(), version)
		queues = append(queues, q)
		workers = append(workers, faultWork(t, q, jobs.WorkerOptions{}, func(_ context.Context, j *faultJob) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			by[j.Input] = append(by[j.Input], version)
			return fmt.Sprintf("of %s, attempt %d", j.Input, j.Attempt), nil
		}))
	}
	want := make(map[*faultHandle]string)
	for i := range 20 {
		for version, q := range queues {
			in := fmt.Sprintf("%d by version %d", i, version+1)
			want[faultSubmit(t, q, in, jobs.SubmitOptions{})] = fmt.Sprintf("of %s, attempt 1", in)
		}
	}
	for h, result := range want {
		faultWantResult(t, h, result)
	}
	mu.Lock()
	defer mu.Unlock()
	for in, versions := range by {
		if len(versions) != 1 || strings.HasSuffix(in, "2") && versions[0] != 2 {
			t.Errorf("%q was run by versions %v; want one, not older than its own", in, versions)
		}
	}
	if got := workers[1].Stats().HandedBack; got != 0 {
		t.Errorf("the newer version handed back %d jobs; want 0", got)
	}
}

func TestFaultNewerInputWaitsForANewerWorker(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.Options{})
	older, newer := faultProgram(t, server.Connect(), 1), faultProgram(t, server.Connect(), 2)
	told := make(chan jobs.Event, 100)
	faultWork(t, older, jobs.WorkerOptions{Concurrency: 1, Observer: onEvent{event: func(e jobs.Event) {
		if e.Kind == jobs.EventHandedBack {
			told <- e
		}
	}}}, faultEcho)
	waiting := faultSubmit(t, newer, "a", jobs.SubmitOptions{})
	if e := <-told; e.ID != waiting.ID() || e.Err == nil || !strings.Contains(e.Err.Error(), "version 2") {
		t.Errorf("event = %+v; want one that says that job %s has version 2", e, waiting.ID())
	}
	// The job does not hold up others, and uses up no attempt.
	faultWantResult(t, faultSubmit(t, older, "b", jobs.SubmitOptions{}), "of b")
	if st := faultStatus(t, waiting); st.State != jobs.StateQueued || st.Attempt != 0 {
		t.Errorf("Status = %+v; want queued, no attempt", st)
	}
	faultWork(t, newer, jobs.WorkerOptions{}, faultEcho)
	faultWantResult(t, waiting, "of a")
}

func TestFaultInputThatDoesNotDecodeAnyMore(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.Options{})
	old := faultProgram(t, server.Connect(), 1)
	h := faultSubmit(t, old, "a", jobs.SubmitOptions{Key: "k"})

	// The new version claims to read version 1, but does not.
	s := faultStore(t, server.Connect(), jobs.StoreOptions{})
	broken := faultNewQueue(t, s, jobs.QueueOptions{Version: 2})
	w, err := broken.Work(faultEcho, jobs.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	st := faultWantDead(t, h, 1, "input of version 1 does not decode")
	if len(st.History) != 1 || st.Key != "k" {
		t.Errorf("Status = %+v; want the key, and one failed attempt", st)
	}
	dead, err := s.List(t.Context(), jobs.Filter{Queue: "fault", States: []jobs.State{jobs.StateDead}})
	if err != nil || len(dead) != 1 || dead[0].ID != h.ID() {
		t.Errorf("List of the dead = %+v, %v; want job %s", dead, err, h.ID())
	}
	faultWantResult(t, faultSubmit(t, broken, "b", jobs.SubmitOptions{}), "of b")
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	// After a return to the old version, nothing is lost.
	faultWork(t, old, jobs.WorkerOptions{}, faultEcho)
	if err := s.Retry(t.Context(), "fault", h.ID()); err != nil {
		t.Fatalf("Retry = %v; want nil", err)
	}
	faultWantResult(t, h, "of a")
}

// Records that were written by a later version of this package, or by another
// program, are not treated as jobs. They hold up no other job, and are not touched.
func TestFaultRecordsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.Options{})
	nc := server.Connect()
	s := faultStore(t, nc, jobs.StoreOptions{})
	q := faultNewQueue(t, s, jobs.QueueOptions{})
	template := faultSubmit(t, q, "template", jobs.SubmitOptions{})
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "WEIR_JOBS_1_default")
	if err != nil {
		t.Fatal(err)
	}
	subject := func(id string) string { return "weir.jobs.1.default.fault." + id + ".w" }
	was, err := stream.GetLastMsgForSubject(t.Context(), subject(template.ID()))
	if err != nil {
		t.Fatal(err)
	}
	strange := map[string]string{
		"newer":   faultNewerForm(t, was.Header.Get("Weir-Job")),
		"garbage": "{",
		"empty":   "",
	}
	for id, meta := range strange {
		m := nats.NewMsg(subject(id))
		m.Header.Set("Weir-Job", meta)
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}

	w := faultWork(t, q, jobs.WorkerOptions{Concurrency: 2}, faultEcho)
	faultEventually(t, "all of them are reported", func() bool { return w.Stats().Trouble >= uint64(len(strange)) })
	faultWantResult(t, template, "of template")
	faultWantResult(t, faultSubmit(t, q, "after", jobs.SubmitOptions{}), "of after")
	for id := range strange {
		if _, err := s.Status(t.Context(), "fault", id); err == nil || errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("Status(%s) = %v; want an error that describes the fault", id, err)
		}
		if _, err := stream.GetLastMsgForSubject(t.Context(), subject(id)); err != nil {
			t.Errorf("message of %s = %v; want the message unchanged", id, err)
		}
	}
	list, err := s.List(t.Context(), jobs.Filter{})
	if err != nil || len(list) != 2 {
		t.Errorf("List = %d jobs, %v; want the 2 readable ones", len(list), err)
	}
}

// faultNewerForm returns a work item of a later version of this package.
func faultNewerForm(t *testing.T, meta string) string {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(meta), &fields); err != nil {
		t.Fatal(err)
	}
	fields["v"] = 99
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
