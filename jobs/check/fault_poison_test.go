package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/natstest"
)

// faultWorkerVariable makes the test binary a worker at the named server. The input
// "poison" kills it, as a crash in C code or a lack of memory would; "slow" takes a
// while.
const faultWorkerVariable = "WEIR_JOBS_FAULT_WORKER"

var faultPoison = jobs.QueueOptions{
	Lease: 2 * time.Second, MaxAttempts: 3, RetryInitial: 20 * time.Millisecond,
}

const faultSlow = 300 * time.Millisecond

func faultWorker(addr string) {
	err := faultRunWorker(addr)
	fmt.Fprintln(os.Stderr, "worker:", err)
	os.Exit(1)
}

func faultRunWorker(addr string) error {
	o := faultPoison
	addr, many := strings.CutSuffix(addr, " MANY")
	if many {
		o.MaxAttempts, o.MaxCrashes = 25, 2
	}
	nc, err := nats.Connect(addr)
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := jobs.Open(ctx, nc, jobs.StoreOptions{MaxBytes: 64 << 20})
	if err != nil {
		return err
	}
	q, err := jobs.NewQueue[string, string](ctx, s, "fault", o)
	if err != nil {
		return err
	}
	_, err = q.Work(func(ctx context.Context, j *faultJob) (string, error) {
		switch {
		case j.Input == "poison":
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				return "", err
			}
			return "", errors.Join(self.Kill(), errors.New("still alive"))
		case strings.HasPrefix(j.Input, "slow"):
			<-time.After(faultSlow)
		}
		return "of " + j.Input, nil
	}, jobs.WorkerOptions{Concurrency: 16})
	if err != nil {
		return err
	}
	select {} // until a poison job kills it
}

// faultSupervise restarts a worker process each time it dies, until the test ends. It
// counts the deaths.
func faultSupervise(t *testing.T, addr string, mode ...string) *atomic.Int32 {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	var deaths atomic.Int32
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = append(os.Environ(), faultWorkerVariable+"="+strings.Join(append([]string{addr}, mode...), " "))
			cmd.Stderr = os.Stderr
			if err := cmd.Run(); err != nil && ctx.Err() == nil {
				deaths.Add(1)
			}
		}
	}()
	return &deaths
}

func TestFaultPoisonKillsItsWorkerEachTime(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.Options{})
	s := faultStore(t, server.Connect(), jobs.StoreOptions{})
	q := faultNewQueue(t, s, faultPoison)
	poison := faultSubmit(t, q, "poison", jobs.SubmitOptions{})
	var others []*faultHandle
	for i := range 20 {
		others = append(others, faultSubmit(t, q, fmt.Sprint("good ", i), jobs.SubmitOptions{}))
	}
	deaths := faultSupervise(t, server.URL())
	for i, h := range others {
		faultWantResult(t, h, fmt.Sprint("of good ", i))
	}
	st := faultWantPoisoned(t, poison)
	if n := int(deaths.Load()); len(st.History) < faultPoison.MaxAttempts || n != faultPoison.MaxAttempts {
		t.Errorf("%d deaths, Status %+v; want %d deaths, all of them in the history", n, st, faultPoison.MaxAttempts)
	}
	dead, err := s.List(t.Context(), jobs.Filter{States: []jobs.State{jobs.StateDead}})
	if err != nil || len(dead) != 1 || dead[0].ID != poison.ID() {
		t.Errorf("List of the dead = %+v, %v; want the poison alone", dead, err)
	}
}

// Failed attempts and attempts that lost their worker have separate bounds, so that a
// job that is retried for hours does not kill as many workers.
func TestFaultPoisonHasItsOwnBound(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.Options{})
	s := faultStore(t, server.Connect(), jobs.StoreOptions{})
	o := faultPoison
	o.MaxAttempts, o.MaxCrashes = 25, 2
	q := faultNewQueue(t, s, o)
	deaths := faultSupervise(t, server.URL(), "MANY")
	faultWantPoisoned(t, faultSubmit(t, q, "poison", jobs.SubmitOptions{}))
	if n := deaths.Load(); n != 2 {
		t.Errorf("%d workers died; want 2", n)
	}
}

// faultWantPoisoned waits for a job that dies because it kills its workers. It does
// not check the number of attempts, because attempts that were handed back before
// they began are numbered, too.
func faultWantPoisoned(t *testing.T, h *faultHandle) jobs.Status {
	t.Helper()
	_, err := faultWait(t, h)
	var job *jobs.JobError
	if !errors.As(err, &job) || job.State != jobs.StateDead || !strings.Contains(job.Message, "worker lost") {
		t.Errorf("Wait(poison) = %v; want a *JobError that is dead: worker lost", err)
	}
	return faultStatus(t, h)
}

// Jobs that ran in the same process are victims once, not each time.
func TestFaultPoisonDoesNotTakeOthersAlong(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.Options{})
	s := faultStore(t, server.Connect(), jobs.StoreOptions{})
	q := faultNewQueue(t, s, faultPoison)
	var slow []*faultHandle
	for i := range 12 {
		slow = append(slow, faultSubmit(t, q, fmt.Sprint("slow ", i), jobs.SubmitOptions{}))
	}
	poison := faultSubmit(t, q, "poison", jobs.SubmitOptions{})
	deaths := faultSupervise(t, server.URL())
	for i, h := range slow {
		faultWantResult(t, h, fmt.Sprint("of slow ", i))
	}
	faultWantPoisoned(t, poison)
	// There are no more deaths than with the poison job alone.
	if n := int(deaths.Load()); n != faultPoison.MaxAttempts {
		t.Errorf("%d deaths; want %d", n, faultPoison.MaxAttempts)
	}
}
