package scenarios

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

// A readCrowd is a crowd of clients that send reads with a body, and judge each response
// byte by byte.
type readCrowd struct {
	Clients, Each int // requests of each client, one after another
	Keys          int // different requests
	Skew          float64
	Tries         int           // of a request that gets 429, a 5xx or a broken transfer
	Deadline      time.Duration // of a request with all its tries
}

// A bodyRead is a request, and the only right response.
type bodyRead struct{ body, want []byte }

// Names of what the clients see.
const (
	tooMany       = "429"
	brokenAnswers = "broken transfers"
	wrongBodies   = "wrong answers"
	cutAnswers    = "truncated answers that look complete"
	firstEventP50 = "first event, p50 ms"
	firstEventP99 = "first event, p99 ms"
)

// A readOutcome is what a client got for a request.
type readOutcome struct {
	reply
	first           time.Duration // from the first try to the first event, or to a whole answer
	tooMany, broken int           // tries that ended so
	wrong, cut      bool
}

// send sends the load to url. spell returns the request of a client for a key.
func (c readCrowd) send(ctx context.Context, url string, h http.Header, spell func(client, key int) bodyRead) (result.Measurement, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: c.Clients, DisableCompression: true}}
	defer client.CloseIdleConnections()
	all := make([]readOutcome, c.Clients*c.Each)
	wanted := newRanks(c.Keys, c.Skew)
	start := time.Now()
	var clients sync.WaitGroup
	for i := range c.Clients {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(2, uint64(i)))
			for k := range c.Each {
				at := time.Since(start)
				o := c.ask(ctx, client, url, h, spell(i, wanted.draw(random)))
				o.at = at
				all[i*c.Each+k] = o
			}
		})
	}
	clients.Wait()
	m := c.tally(all, time.Since(start))
	return m, ctx.Err()
}

// tally makes a measurement of outcomes.
func (c readCrowd) tally(all []readOutcome, elapsed time.Duration) result.Measurement {
	replies, first := make([]reply, len(all)), []float64(nil)
	values := map[string]float64{tooMany: 0, brokenAnswers: 0, wrongBodies: 0, cutAnswers: 0}
	for i, o := range all {
		replies[i] = o.reply
		values[tooMany] += float64(o.tooMany)
		values[brokenAnswers] += float64(o.broken)
		if o.wrong {
			values[wrongBodies]++
		}
		if o.cut {
			values[cutAnswers]++
		}
		if o.err == nil {
			first = append(first, o.first.Seconds()*1000)
		}
	}
	m := tally(fmt.Sprintf("%d clients, %d requests each, %d different ones", c.Clients, c.Each, c.Keys), replies, elapsed)
	m.Values = values
	if len(first) > 0 {
		l := latencyOf(first)
		values[firstEventP50], values[firstEventP99] = l.P50, l.P99
	}
	return m
}

// ask sends a request until it gets a response, at most c.Tries times.
func (c readCrowd) ask(ctx context.Context, client *http.Client, url string, h http.Header, r bodyRead) (o readOutcome) {
	ctx, cancel := context.WithTimeout(ctx, c.Deadline)
	defer cancel()
	sent := time.Now()
	defer func() { o.took = time.Since(sent) }()
	for try := range c.Tries {
		wait, again := o.try(ctx, client, url, h, r, sent)
		if !again || try+1 == c.Tries {
			return o
		}
		if wait == 0 {
			wait = firstWait << try
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return o
		}
	}
	return o
}

// firstWait is the time before the second try if the response states none. It doubles
// with each try.
const firstWait = 500 * time.Millisecond

// try sends the request once. It returns whether to try again, and after what time if
// the response states one.
func (o *readOutcome) try(ctx context.Context, client *http.Client, url string, h http.Header, r bodyRead, sent time.Time) (wait time.Duration, again bool) {
	o.status, o.err = 0, nil
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(r.body))
	if err != nil {
		o.err = err
		return 0, false
	}
	req.Header = h.Clone()
	resp, err := client.Do(req)
	if err != nil {
		o.err = err
		return 0, true
	}
	defer resp.Body.Close()
	if o.status = resp.StatusCode; o.status != http.StatusOK {
		io.Copy(io.Discard, resp.Body) //nolint:errcheck // the status is the answer
		o.err = fmt.Errorf("status %d", o.status)
		if o.status == http.StatusTooManyRequests {
			o.tooMany++
		}
		if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
			wait = time.Duration(s) * time.Second
		}
		return wait, o.status == http.StatusTooManyRequests || o.status >= 500
	}
	got, err := o.read(resp.Body, sent)
	switch {
	case bytes.Equal(got, r.want) && err == nil:
	case !bytes.HasPrefix(r.want, got):
		o.wrong, o.err = true, errors.New("a wrong answer")
	case err == nil:
		o.cut, o.err = true, errors.New("a truncated answer that looks complete")
	default:
		o.broken++
		o.err = err
		return 0, true
	}
	return 0, false
}

// read reads a body, and notes when the first event was complete: a blank line ends it. A
// document has none, so its end counts.
func (o *readOutcome) read(body io.Reader, sent time.Time) (got []byte, err error) {
	o.first = 0
	buffer := make([]byte, 4<<10)
	for {
		n, err := body.Read(buffer)
		got = append(got, buffer[:n]...)
		if o.first == 0 && (err == io.EOF || bytes.Contains(got, []byte("\n\n"))) {
			o.first = time.Since(sent)
		}
		switch {
		case err == io.EOF:
			return got, nil
		case err != nil:
			return got, err
		}
	}
}

// checkReads checks that the measurement of a variant has no wrong answer and, for weir,
// no truncated one.
func checkReads(l *scenario.Lab, m result.Measurement) {
	name := fmt.Sprintf("%s, %s, round %d", m.Variant, m.Setting, m.Round)
	l.Check(name+": no answer is wrong", m.Values[wrongBodies] == 0, "%.0f of %d", m.Values[wrongBodies], m.Requests)
	if m.Variant != shielded {
		return
	}
	l.Check(name+": no answer is truncated", m.Values[cutAnswers] == 0, "%.0f of %d", m.Values[cutAnswers], m.Requests)
	l.Check(name+": every request is answered, without a 429", m.Failures == 0 && m.Values[tooMany] == 0,
		"%.0f times 429, %d failures: %s", m.Values[tooMany], m.Failures, m.FirstFailure)
}
