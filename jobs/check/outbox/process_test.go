package outbox_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/outbox"
	"github.com/weir-go/weir/jobs/outbox/outboxpgx"
)

// relayVariable is the environment variable with the task of a process that is a relay.
const relayVariable = "WEIR_OUTBOX_RELAY"

// A relayTask is what a relay process does.
type relayTask struct {
	Postgres, NATS string
	// Crash is how many submissions there are for each that the process does not
	// survive: it is killed after the submission and before the deletion. Zero: none.
	Crash int
}

// historyQueue are the options of the queue in the tests with processes.
var historyQueue = jobs.QueueOptions{Lease: 2 * time.Second, RetryInitial: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond, MaxAttempts: 1000, MaxCrashes: 1000}

// relayProcess is a relay that runs until it is killed, or its parent has ended.
func relayProcess() {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	var task relayTask
	err := json.Unmarshal([]byte(os.Getenv(relayVariable)), &task)
	for err == nil {
		// What is not available yet, or was killed, is tried again.
		if err := task.relay(); err != nil {
			fmt.Println("trouble", strings.ReplaceAll(err.Error(), "\n", " "))
			<-time.After(50 * time.Millisecond)
		}
	}
	fmt.Println("error", err)
	os.Exit(1)
}

func (task relayTask) relay() error {
	ctx := context.Background()
	db, err := sql.Open("pgx", task.Postgres)
	if err != nil {
		return err
	}
	defer db.Close()
	config, err := pgx.ParseConfig(task.Postgres)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(task.NATS, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		return err
	}
	defer nc.Close()
	store, err := jobs.Open(ctx, nc, jobs.StoreOptions{MaxBytes: 256 << 20, Timeout: time.Second})
	if err != nil {
		return err
	}
	defer store.Close(ctx)
	table, err := outbox.NewTable(db, outbox.TableOptions{})
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(ctx, table, store, outbox.RelayOptions{
		Queues: map[string]jobs.QueueOptions{"q": historyQueue}, Listen: outboxpgx.Listen(config), Observer: reporter{crash: task.Crash},
		Batch: 10, Parallel: 3, Lease: 500 * time.Millisecond, Poll: 50 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}

// A reporter prints the kinds of events, and kills its process now and then.
type reporter struct {
	outbox.NopObserver
	crash int
}

func (r reporter) Event(_ context.Context, e outbox.Event) {
	if e.Kind == outbox.EventSubmitted && r.crash > 0 && rand.N(r.crash) == 0 {
		fmt.Println("crash")
		p, _ := os.FindProcess(os.Getpid())
		p.Kill()
		select {} // until the signal arrives
	}
	fmt.Println(e.Kind)
}

// relays are relay processes, which are replaced when they end.
type relays struct {
	t    *testing.T
	task relayTask
	stop chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	running map[int]*os.Process // guarded by mu; by slot
	lines   map[string]int      // guarded by mu; how often a line was printed
}

// startRelays starts n relay processes. They end with the test.
func startRelays(t *testing.T, n int, task relayTask) *relays {
	t.Helper()
	r := &relays{t: t, task: task, stop: make(chan struct{}), running: map[int]*os.Process{}, lines: map[string]int{}}
	for i := range n {
		r.done.Go(func() { r.keep(i) })
	}
	t.Cleanup(func() {
		close(r.stop)
		for i := range n {
			r.kill(i)
		}
		r.done.Wait()
	})
	return r
}

// keep runs one process after another in a slot.
func (r *relays) keep(slot int) {
	for {
		select {
		case <-r.stop:
			return
		default:
		}
		if err := r.one(slot); err != nil {
			r.t.Errorf("relay process: %v", err)
			return
		}
	}
}

func (r *relays) one(slot int) error {
	text, err := json.Marshal(r.task)
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), relayVariable+"="+string(text))
	in, err := cmd.StdinPipe() // the process ends when it is closed
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	r.mu.Lock()
	select {
	case <-r.stop: // after Cleanup's kill
		r.mu.Unlock()
		return nil
	default:
	}
	if err = cmd.Start(); err == nil {
		r.running[slot] = cmd.Process
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		what, _, _ := strings.Cut(lines.Text(), " ")
		r.mu.Lock()
		r.lines[what]++
		r.mu.Unlock()
		if what == "error" || what == "panic:" {
			r.t.Errorf("relay process: %s", lines.Text())
		}
	}
	_ = cmd.Wait() // the error only reports the signal
	return nil
}

// kill kills the process of a slot.
func (r *relays) kill(slot int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.running[slot]; p != nil {
		_ = p.Kill() // it may have ended
	}
}

// printed returns how often the processes printed a line.
func (r *relays) printed(line string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines[line]
}
