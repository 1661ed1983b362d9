package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/weir-go/weir/lab/internal/link"
)

// Options configure a soak. Program and Dir are required.
type Options struct {
	Program string        // this program, which has called Child
	Dir     string        // folder for all data and logs; created if missing
	For     time.Duration // duration of load and faults
	Seed    uint64        // determines the faults and requests, and their times
	Cluster bool          // jobs are kept by a NATS cluster of three, not by each gateway
	Rate    float64       // requests per second, 40 if it is 0
	Every   time.Duration // average time from one fault to the next, 10 s if it is 0
	Log     io.Writer     // log of events
}

// Defaults of Options.
const (
	DefaultRate  = 40
	DefaultEvery = 10 * time.Second
)

// calm is how long the load continues at the end without faults; jobsEnd is how long
// jobs have to end after that.
const (
	calm    = 15 * time.Second
	jobsEnd = 90 * time.Second
)

// A soak is one run.
type soak struct {
	o        Options
	began    time.Time
	source   *source
	redis    *redis
	nodes    []*process // of NATS
	nats     []string   // their URLs, nil without
	gateways []*gateway
	ledger   *ledger
	disk     string // the small file system, empty without
	shed     int    // requests not sent because too many were in flight

	later sync.WaitGroup // goroutines started by after

	mu      sync.Mutex
	jobs    []*job   // guarded by mu: accepted jobs
	samples []sample // guarded by mu
}

// Run runs a soak to its end and returns its report. Nothing that it started outlives
// it. If ctx ends, Run stops early and judges the results so far.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Rate <= 0 {
		o.Rate = DefaultRate
	}
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	s := &soak{o: o, ledger: newLedger()}
	defer s.close()
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	s.began = time.Now()
	s.say("seed %d: %v of load and faults", o.Seed, o.For)
	s.run(ctx)
	r := s.report(time.Since(s.began))
	return r, nil
}

// say logs an event.
func (s *soak) say(format string, args ...any) {
	if s.o.Log == nil {
		return
	}
	since := time.Duration(0)
	if !s.began.IsZero() {
		since = time.Since(s.began)
	}
	fmt.Fprintf(s.o.Log, "%7.1fs  %s\n", since.Seconds(), fmt.Sprintf(format, args...))
}

// after calls f later.
func (s *soak) after(d time.Duration, f func()) {
	s.later.Go(func() {
		rest(context.Background(), d)
		f()
	})
}

// run runs the load, the faults and the watchers until time is up, and waits
// for jobs.
func (s *soak) run(ctx context.Context) {
	loadCtx, endLoad := context.WithTimeout(ctx, s.o.For)
	defer endLoad()
	faultCtx, endFaults := context.WithTimeout(loadCtx, max(s.o.For-calm, s.o.For/2))
	defer endFaults()
	restCtx, endRest := context.WithCancel(ctx)
	defer endRest()
	var load, watchers sync.WaitGroup
	load.Go(func() { s.load(loadCtx, s.o.Seed) })
	load.Go(func() { s.breakThings(faultCtx) })
	watchers.Go(func() { s.follow(restCtx) })
	watchCtx, endWatch := context.WithCancel(loadCtx)
	defer endWatch()
	watchers.Go(func() { s.watch(watchCtx) })
	load.Wait()
	s.say("the load has ended; %d jobs are not over", len(s.open()))
	for end := time.Now().Add(jobsEnd); len(s.open()) > 0 && time.Now().Before(end) && rest(ctx, time.Second); {
	}
	endRest()
	watchers.Wait()
	s.later.Wait()
	s.ask(context.WithoutCancel(ctx), rand.New(rand.NewPCG(s.o.Seed, 4)))
	s.judgeJobs()
	s.judgeLogs()
	s.ledger.judge()
}

// crashes are texts in the output of a process that crashed.
var crashes = [][]byte{[]byte("\npanic:"), []byte("fatal error:"), []byte("WARNING: DATA RACE")}

// judgeLogs looks for crashes in the output of the processes.
func (s *soak) judgeLogs() {
	for _, g := range s.gateways {
		b, err := os.ReadFile(g.log)
		if err != nil {
			s.ledger.bad(badFault, "%v", err)
		}
		for _, c := range crashes {
			if i := bytes.Index(b, c); i >= 0 {
				s.ledger.bad(badFault, "%s crashed: %s", g.name, bytes.TrimSpace(b[i:min(len(b), i+200)]))
			}
		}
	}
}

// start starts everything.
func (s *soak) start(ctx context.Context) (err error) {
	if err = os.MkdirAll(s.o.Dir, 0o755); err != nil {
		return err
	}
	if s.source, err = newSource(); err != nil {
		return err
	}
	if s.redis, err = newRedis(s.o.Dir); err != nil {
		return err
	}
	s.say("starting Redis")
	if err = s.redis.start(ctx); err != nil {
		return err
	}
	if err = s.startJobs(ctx); err != nil {
		return err
	}
	for i := range 3 {
		g, err := newGateway(s.o.Dir, s.o.Program, i)
		if err != nil {
			return err
		}
		s.gateways = append(s.gateways, g)
		if g.link, err = link.New(s.redis.addr); err != nil {
			return err
		}
		if !s.o.Cluster {
			g.jobsDir = filepath.Join(g.dir, "jobs")
			if i == 2 && s.disk != "" {
				g.jobsDir = filepath.Join(s.disk, "jobs")
			}
		}
		if err := g.write(s.source.url, s.nats); err != nil {
			return err
		}
		s.say("starting %s: http://%s, https://%s, console http://%s/console/", g.name, g.plain, g.secure, g.admin)
		if err := g.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// diskSize is the size of the small file system: more than weir requires to start.
const diskSize = "420m"

// startJobs creates the storage for jobs.
func (s *soak) startJobs(ctx context.Context) error {
	if !s.o.Cluster {
		disk := filepath.Join(s.o.Dir, "disk")
		if err := os.MkdirAll(disk, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size="+diskSize); err == nil {
			s.disk = disk
		} else {
			s.say("no small file system, so the disk will not be full: %v", err)
		}
		return nil
	}
	var err error
	if s.nodes, s.nats, err = newCluster(s.o.Dir, s.o.Program); err != nil {
		return err
	}
	s.say("starting three NATS servers")
	var all sync.WaitGroup
	errs := make([]error, len(s.nodes))
	for i, n := range s.nodes {
		all.Go(func() { errs[i] = n.start(ctx) })
	}
	all.Wait()
	rest(ctx, 3*time.Second) // until they have a leader; the gateways wait for everything else
	return errors.Join(errs...)
}

// close ends everything that was started.
func (s *soak) close() {
	s.later.Wait()
	for _, g := range s.gateways {
		g.stop()
		if g.link != nil {
			g.link.Stop() //nolint:errcheck // it has ended already
		}
	}
	for _, n := range s.nodes {
		n.kill()
	}
	if s.redis != nil {
		s.redis.kill()
	}
	if s.source != nil {
		s.source.close()
	}
	if s.disk != "" {
		syscall.Unmount(s.disk, syscall.MNT_DETACH) //nolint:errcheck // it disappears with the machine
	}
}
