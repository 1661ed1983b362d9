//go:build unix

package jobs_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// BenchmarkWork executes 10,000 jobs that are already accepted and do nothing, until all
// of them are acknowledged. On a busy machine the CPU time per job says more than the rate.
func BenchmarkWork(b *testing.B) {
	const n, each = 10_000, 1000
	for _, d := range []jobs.Durability{jobs.DurabilityDisk, jobs.DurabilityProcess} {
		for _, workers := range []int{16, 256, 1024} {
			b.Run(fmt.Sprintf("%v/%d workers", d, workers), func(b *testing.B) {
				var spent time.Duration
				for b.Loop() {
					b.StopTimer()
					nc, end := benchServer(b, d)
					s, err := jobs.Open(b.Context(), nc, jobs.StoreOptions{Durability: d})
					if err != nil {
						b.Fatal(err)
					}
					q, err := jobs.NewQueue[int, struct{}](b.Context(), s, "q", jobs.QueueOptions{MaxQueued: n})
					if err != nil {
						b.Fatal(err)
					}
					for range n / each {
						if _, err := q.SubmitMany(b.Context(), make([]jobs.Submission[int], each)); err != nil {
							b.Fatal(err)
						}
					}
					before := cpuTime()
					b.StartTimer()
					w := workOff(b, s, q, n, workers)
					b.StopTimer()
					spent += cpuTime() - before
					w.Close(context.Background())
					s.Close(context.Background())
					end()
					b.StartTimer()
				}
				b.ReportMetric(float64(spent.Microseconds())/float64(n*b.N), "cpu-µs/job")
				b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "jobs/s")
			})
		}
	}
}

// workOff executes n jobs.
func workOff(b *testing.B, s *jobs.Store, q *jobs.Queue[int, struct{}], n int64, workers int) *jobs.Worker {
	var ran atomic.Int64
	w, err := q.Work(func(context.Context, *jobs.Job[int]) (struct{}, error) {
		ran.Add(1)
		return struct{}{}, nil
	}, jobs.WorkerOptions{Concurrency: workers})
	if err != nil {
		b.Fatal(err)
	}
	for {
		<-time.After(2 * time.Millisecond)
		if ran.Load() < n {
			continue
		}
		all, err := s.Queues(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if all[0].Waiting+all[0].Taken == 0 {
			return w
		}
	}
}

// benchServer starts a server, and returns a connection to it.
func benchServer(b *testing.B, d jobs.Durability) (*nats.Conn, func()) {
	srv, err := embedded.Start(embedded.Options{Dir: b.TempDir(), Durability: d})
	if err != nil {
		b.Fatal(err)
	}
	nc, err := srv.Connect()
	if err != nil {
		b.Fatal(err)
	}
	return nc, func() {
		nc.Close()
		srv.Close(context.Background())
	}
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkClaims compares ways of recording that 256 jobs have started, on the server
// alone, by CPU time per job (decision 0088). Two goroutines record 10,240 jobs.
func BenchmarkClaims(b *testing.B) {
	const n, each = 10_240, 256
	ways := []struct {
		name string
		do   func(c *claims, from, to int) error
	}{
		{"a request each", (*claims).requests},
		{"all before the first response", (*claims).pipelined},
		{"an atomic batch", (*claims).batch},
		{"one message", (*claims).one},
	}
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			var spent time.Duration
			for b.Loop() {
				b.StopTimer()
				nc, end := benchServer(b, jobs.DurabilityProcess)
				c := &claims{nc: nc}
				if err := c.fill(b.Context(), n); err != nil {
					b.Fatal(err)
				}
				var both sync.WaitGroup
				var next atomic.Int64
				before := cpuTime()
				b.StartTimer()
				for range 2 {
					both.Go(func() {
						for {
							from := int(next.Add(each)) - each
							if from >= n {
								return
							}
							if err := way.do(c, from, from+each); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				both.Wait()
				b.StopTimer()
				spent += cpuTime() - before
				end()
				b.StartTimer()
			}
			b.ReportMetric(float64(spent.Nanoseconds())/1000/float64(n*b.N), "cpu-µs/job")
		})
	}
}

// claims are the records of jobs with the sequences 1, 2 and so on.
type claims struct{ nc *nats.Conn }

// fill creates a stream like that of a namespace, with n work items.
func (c *claims) fill(ctx context.Context, n int) error {
	js, err := jetstream.New(c.nc)
	if err != nil {
		return err
	}
	s, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "S", Subjects: []string{"w.*.*.*"}, Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew,
		MaxBytes: 1 << 30, MaxMsgsPerSubject: 1, Storage: jetstream.FileStorage, AllowDirect: true, AllowMsgTTL: true,
		AllowAtomicPublish: true,
		RePublish:          &jetstream.RePublish{Source: "w.*.*.s", Destination: "changed.{{wildcard(1)}}.{{wildcard(2)}}", HeadersOnly: true},
	})
	for i := range n {
		if err == nil {
			err = c.nc.Publish(fmt.Sprintf("w.q.%032d.w", i), []byte("1"))
		}
	}
	for err == nil {
		var info *jetstream.StreamInfo
		if info, err = s.Info(ctx); err == nil && info.State.Msgs == uint64(n) {
			return nil
		}
		<-time.After(5 * time.Millisecond)
	}
	return err
}

// message is the record of job i.
func (c *claims) message(i int) *nats.Msg {
	m := nats.NewMsg(fmt.Sprintf("w.q.%032d.s", i))
	m.Header["Weir-Job"] = []string{`{"v":1,"keep":86400000000000,"lease":10000000000,"state":"running","of":12345,"attempt":1,"spent":1,"begun":true,"worker":"host/12345","submitted":"2026-11-26T06:51:42.123456789Z","started":"2026-11-26T06:51:42.123456789Z"}`}
	m.Header["Weir-Try"] = []string{rand.Text()}
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.Itoa(i + 1)}
	m.Header[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{fmt.Sprintf("w.q.%032d.*", i)}
	m.Header[jetstream.MsgTTLHeader] = []string{"1000s"}
	return m
}

const claimPatience = 10 * time.Second

func stored(answer *nats.Msg, err error) error {
	if err == nil && strings.Contains(string(answer.Data), "error") {
		err = fmt.Errorf("not stored: %s", answer.Data)
	}
	return err
}

func (c *claims) requests(from, to int) error {
	var all sync.WaitGroup
	errs := make(chan error, to-from)
	for i := from; i < to; i++ {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), claimPatience)
			defer cancel()
			if err := stored(c.nc.RequestMsgWithContext(ctx, c.message(i))); err != nil {
				errs <- err
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

func (c *claims) pipelined(from, to int) error {
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox + ".*")
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	for i := from; i < to; i++ {
		m := c.message(i)
		m.Reply = inbox + "." + strconv.Itoa(i)
		if err := c.nc.PublishMsg(m); err != nil {
			return err
		}
	}
	for range to - from {
		if err := stored(sub.NextMsg(claimPatience)); err != nil {
			return err
		}
	}
	return nil
}

func (c *claims) batch(from, to int) error {
	id := rand.Text()
	for i := from; ; i++ {
		m := c.message(i)
		m.Header["Nats-Batch-Id"] = []string{id}
		m.Header["Nats-Batch-Sequence"] = []string{strconv.Itoa(i - from + 1)}
		if i == to-1 {
			m.Header["Nats-Batch-Commit"] = []string{"1"}
			return stored(c.nc.RequestMsg(m, claimPatience))
		}
		if err := c.nc.PublishMsg(m); err != nil {
			return err
		}
	}
}

func (c *claims) one(from, to int) error {
	m := nats.NewMsg("w.q." + rand.Text() + ".r")
	for i := from; i < to; i++ {
		m.Data = fmt.Appendf(m.Data, "%032d %d\n", i, i+1)
	}
	return stored(c.nc.RequestMsg(m, claimPatience))
}
