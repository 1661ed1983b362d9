package judge

import (
	"context"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A System is a cache under test.
type System interface {
	// Do sends r of c and returns when the answer is complete. Play calls it
	// concurrently for requests at once. The context of the call to the origin must
	// have the values of ctx.
	Do(ctx context.Context, c Client, r Request) Reply
	// Purge removes what is stored for target.
	Purge(target string)
	// Close ends all that the System has started.
	Close()
}

// Open returns a System for h in front of origin.
type Open func(h History, origin http.Handler) (System, error)

// A Reply is the response that a client got.
type Reply struct {
	Status int
	Header http.Header
	Body   string
	Broken bool // it ended early, or there was none
}

// An exchange is a request and its answer.
type exchange struct {
	number     int
	step       int // index of its step
	place      int // index in its step
	request    Request
	client     Client
	start, end time.Time
	answer     Reply
}

// A purge is when what is stored for a target was removed.
type purge struct {
	target string
	at     time.Time
}

// A Record is what happened in a history.
type Record struct {
	History   History
	exchanges []*exchange
	calls     []*Call
	purges    []purge
}

// pause is what the System may take after a step for work in the background.
const pause = 500 * time.Millisecond

// Play runs h through a System that open returns.
func Play(h History, open Open) (*Record, error) {
	origin := &recorder{origin: h.Origin, stream: h.Way == Stream}
	sys, err := open(h, origin)
	if err != nil {
		return nil, err
	}
	rec := &Record{History: h}
	for i, step := range h.Steps {
		time.Sleep(step.Wait)
		if step.Purge && len(step.Requests) > 0 {
			sys.Purge(step.Requests[0].Target)
			rec.purges = append(rec.purges, purge{step.Requests[0].Target, time.Now()})
			time.Sleep(time.Millisecond)
		}
		var wg sync.WaitGroup
		for j, r := range step.Requests {
			e := &exchange{number: len(rec.exchanges), step: i, place: j, request: r, client: h.Clients[r.Client], start: time.Now()}
			rec.exchanges = append(rec.exchanges, e)
			ctx := context.WithValue(context.WithValue(context.Background(), callerKey, e.number), identityKey, e.client.Identity)
			wg.Go(func() {
				e.answer = sys.Do(ctx, e.client, r)
				e.end = time.Now()
			})
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		time.Sleep(pause)
	}
	sys.Close()
	origin.mu.Lock()
	defer origin.mu.Unlock()
	for _, c := range origin.calls {
		if c.Status != 0 { // otherwise Close has ended it
			rec.calls = append(rec.calls, c)
		}
	}
	return rec, nil
}

var callName = regexp.MustCompile(`call=(\d{6})`)

// bytesOf returns the calls that the bytes of a client's response come from.
func (rec *Record) bytesOf(a Reply) map[int]bool {
	from := map[int]bool{}
	for _, m := range callName.FindAllStringSubmatch(a.Body, -1) {
		n, _ := strconv.Atoi(m[1])
		from[n] = true
	}
	if len(from) == 0 { // HEAD, 304
		if n := fieldsOf(a); n >= 0 {
			from[n] = true
		}
	}
	return from
}

// fieldsOf returns the call that the fields of a client's response come from, or -1.
func fieldsOf(a Reply) int {
	if n, err := strconv.Atoi(a.Header.Get(callField)); err == nil {
		return n
	}
	return -1
}

// cookieOf returns the call that Set-Cookie of a client's response comes from, or -1.
func cookieOf(a Reply) int {
	if n, err := strconv.Atoi(strings.TrimPrefix(a.Header.Get("Set-Cookie"), "call=")); err == nil {
		return n
	}
	return -1
}

func (rec *Record) call(number int) *Call {
	for _, c := range rec.calls {
		if c.Number == number {
			return c
		}
	}
	return nil
}
