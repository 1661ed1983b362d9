package journal

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Now returns the server's time.
func (j *Journal) Now() time.Time { return j.clock.now() }

// readClock reads the server's time.
func (j *Journal) readClock(ctx context.Context) error {
	_, err := j.Bytes(ctx)
	return err
}

func (j *Journal) keepClock() {
	t := time.NewTicker(clockEvery)
	defer t.Stop()
	for {
		select {
		case <-j.life.Done():
			return
		case <-t.C:
			j.readClock(j.life) // on failure, the next reading will do
		}
	}
}

// Bytes returns the size of the namespace.
func (j *Journal) Bytes(ctx context.Context) (uint64, error) {
	ctx, cancel := j.bound(ctx)
	defer cancel()
	// Get a separate handle: Info of one handle is not safe for concurrent use.
	s, err := j.js.Stream(ctx, j.names.stream())
	if err != nil {
		return 0, j.mapError(err)
	}
	info := s.CachedInfo()
	j.clock.set(info.TimeStamp)
	return info.State.Bytes, nil
}

// A Backlog counts the work items of a queue.
type Backlog struct {
	Waiting int    // not taken by any worker
	Taken   int    // taken and unfinished
	Acked   uint64 // acknowledged deliveries, up to the first that is not; only grows
	Paused  bool   // see Pause

	next uint64 // the lowest sequence that no worker has taken
}

// Backlog reads the counts of a queue, without the Age.
func (j *Journal) Backlog(ctx context.Context, queue string) (Backlog, error) {
	ctx, cancel := j.bound(ctx)
	defer cancel()
	c, err := j.js.Consumer(ctx, j.names.stream(), queue)
	if err != nil {
		return Backlog{}, j.mapError(err)
	}
	info := c.CachedInfo()
	return Backlog{
		Waiting: int(info.NumPending), Taken: info.NumAckPending, Acked: info.AckFloor.Consumer, Paused: info.Paused,
		next: info.Delivered.Stream + 1,
	}, nil
}

// Pause stops the delivery of a queue's work items until the given time; the zero time
// resumes it. The error is ErrNoQueue if there is no such queue.
func (j *Journal) Pause(ctx context.Context, queue string, until time.Time) error {
	return j.patiently(ctx, func(ctx context.Context) error {
		var err error
		if until.IsZero() {
			_, err = j.js.ResumeConsumer(ctx, j.names.stream(), queue)
		} else {
			_, err = j.js.PauseConsumer(ctx, j.names.stream(), queue, until)
		}
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			return ErrNoQueue
		}
		return j.mapError(err)
	})
}

// Age returns how long the oldest job that no worker has taken has waited. The server
// counts the messages after it, so this must not be called often.
func (j *Journal) Age(ctx context.Context, queue string, b Backlog) (time.Duration, error) {
	if b.Waiting == 0 {
		return 0, nil
	}
	ctx, cancel := j.bound(ctx)
	defer cancel()
	oldest, err := j.get(ctx, getRequest{Seq: b.next, NextBySubject: j.subject(queue, "*", Work)})
	if err != nil || oldest == nil {
		return 0, err
	}
	return max(0, j.Now().Sub(oldest.Time)), nil
}

// Count returns the number of messages of a kind in a queue, over all IDs. The server
// scans all subjects of the queue, and reads one message.
func (j *Journal) Count(ctx context.Context, queue string, k Kind) (int, error) {
	count := 0
	request := getRequest{Seq: 1, NextBySubject: j.subject(queue, "*", k), Batch: 1}
	_, _, err := j.page(ctx, request, func(m *Message) bool {
		count = 1 + m.after
		return false
	})
	return count, err
}

// Kinds calls f for every message of a queue. The server lists their subjects and
// reads none of them.
func (j *Journal) Kinds(ctx context.Context, queue string, f func(id string, k Kind)) error {
	ctx, cancel := j.bound(ctx)
	defer cancel()
	s, err := j.js.Stream(ctx, j.names.stream())
	if err != nil {
		return j.mapError(err)
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(j.prefix()+queue+".>"))
	if err != nil {
		return j.mapError(err)
	}
	for subject := range info.State.Subjects {
		if _, id, kind, ok := j.parse(subject); ok {
			f(id, kind)
		}
	}
	return nil
}

// Consumer returns the consumer that delivers a queue's work items, and creates it
// with the lease if there is none. Its info has the lease in effect.
func (j *Journal) Consumer(ctx context.Context, queue string, lease time.Duration) (c jetstream.Consumer, err error) {
	err = j.patiently(ctx, func(ctx context.Context) error {
		c, err = j.js.Consumer(ctx, j.names.stream(), queue)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			c, err = j.js.CreateOrUpdateConsumer(ctx, j.names.stream(), j.consumer(queue, lease))
		}
		return j.mapError(err)
	})
	return c, err
}

func (j *Journal) consumer(queue string, lease time.Duration) jetstream.ConsumerConfig {
	return j.names.consumer(queue, lease)
}

// EnsureConsumer creates the consumer of a queue if there is none, on a server that
// has the stream.
func EnsureConsumer(ctx context.Context, js jetstream.JetStream, namespace, queue string, lease time.Duration) error {
	n := names{namespace}
	_, err := js.Consumer(ctx, n.stream(), queue)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		_, err = js.CreateOrUpdateConsumer(ctx, n.stream(), n.consumer(queue, lease))
	}
	return err
}

func (n names) consumer(queue string, lease time.Duration) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       queue,
		FilterSubject: n.subject(queue, "*", Work),
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       lease,
		MaxDeliver:    -1,
		MaxAckPending: -1,
		MaxWaiting:    4096,
	}
}

// Queues returns the names of the queues that have been used.
func (j *Journal) Queues(ctx context.Context) ([]string, error) {
	ctx, cancel := j.bound(ctx)
	defer cancel()
	list := j.stream.ConsumerNames(ctx)
	var queues []string
	for name := range list.Name() {
		queues = append(queues, name)
	}
	return queues, j.mapError(list.Err())
}
