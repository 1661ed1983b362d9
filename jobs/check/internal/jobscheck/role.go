package jobscheck

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
)

// roleVariable is the environment variable with the config of a process that this
// program has started.
const roleVariable = "WEIR_JOBS_CHECK"

// A config is what a process gets at its start.
type config struct {
	Role  string // submitter, worker or server
	Name  string // with the life: "worker-2.3"
	Log   string
	Seed  uint64
	Lease time.Duration
	Rate  float64 // submissions per second

	URLs       []string // addresses of the servers
	Replicas   int
	Durability jobs.Durability

	Server *serverConfig // nil: no server in this process
}

const (
	roleSubmitter = "submitter"
	roleWorker    = "worker"
	roleServer    = "server"
)

// A command is a line on a process's standard input. The process ends when its input
// ends, which happens when the program that started it is gone for any reason.
type command string

const (
	tellQuiet command = "quiet"
	tellStop  command = "stop"
)

// Main runs the role of a process that Run has started, and does not return in that
// case. Otherwise it returns at once. A program must call it before anything else; a
// test binary calls it from TestMain.
func Main() {
	text, ok := os.LookupEnv(roleVariable)
	if !ok {
		return
	}
	var c config
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = c.run()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.Name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (c config) run() error {
	j, err := openJournal(c.Log, c.Name)
	if err != nil {
		return err
	}
	defer j.Close()
	if c.Server != nil {
		end, err := startServer(*c.Server)
		if err != nil {
			return fmt.Errorf("server: %w", err)
		}
		defer end()
	}
	told := listen()
	switch c.Role {
	case roleWorker:
		return runWorker(c, j, told)
	case roleSubmitter:
		return runSubmitter(c, j, told)
	}
	for t := range told {
		if t == tellStop {
			return nil
		}
	}
	return nil
}

// listen returns a channel of commands. The process exits at once when its standard
// input ends.
func listen() <-chan command {
	told := make(chan command)
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			told <- command(lines.Text())
		}
		os.Exit(0)
	}()
	return told
}

// openQueue connects, and waits until the servers are ready. The returned function
// closes everything.
func openQueue(c config) (*jobs.Queue[input, string], func(), error) {
	store, end, err := openStore(c)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), openWithin)
	defer cancel()
	for {
		once, cancel := context.WithTimeout(ctx, 2*opTimeout)
		q, err := jobs.NewQueue[input, string](once, store, queueName, queueOptions(c.Lease))
		cancel()
		if err == nil {
			return q, end, nil
		}
		if pauseOr(ctx) {
			end()
			return nil, nil, fmt.Errorf("no queue within %v: %w", openWithin, err)
		}
	}
}

// pauseOr waits a moment, and reports whether ctx has ended.
func pauseOr(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	case <-time.After(100 * time.Millisecond):
		return false
	}
}

// openWithin is how long a process waits for the servers when it starts.
const openWithin = time.Minute

func openStore(c config) (*jobs.Store, func(), error) {
	nc, err := nats.Connect(joinURLs(c.URLs), nats.Name(c.Name), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true),
		nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(20*time.Millisecond, 20*time.Millisecond), nats.Timeout(time.Second),
		nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2))
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), openWithin)
	defer cancel()
	for {
		once, cancel := context.WithTimeout(ctx, 2*opTimeout)
		store, err := jobs.Open(once, nc, jobs.StoreOptions{
			Namespace: "check", Replicas: c.Replicas, Durability: c.Durability, Timeout: opTimeout, MaxBytes: 1 << 30,
		})
		cancel()
		if err == nil {
			return store, func() {
				_ = store.Close(context.Background()) // always nil, because the context never ends
				nc.Close()
			}, nil
		}
		if pauseOr(ctx) {
			nc.Close()
			return nil, nil, fmt.Errorf("not connected within %v: %w", openWithin, err)
		}
	}
}
