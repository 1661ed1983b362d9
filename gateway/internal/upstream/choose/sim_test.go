package choose_test

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-go/weir/gateway/internal/upstream/choose"
)

// A world is a pool in virtual time: servers with places, gateways that choose, and work.
type world struct {
	now      time.Duration
	random   *rand.Rand
	events   events
	sequence int
	servers  []*server
	gates    []chooser
	changes  []choose.Change

	from  time.Duration // the measurement begins
	took  []time.Duration
	calls int
	bad   int
}

// A chooser is what a gateway does with its calls.
type chooser interface {
	// pick returns a server, and what to call at its response and its end. It returns -1
	// if the call must wait.
	pick(w *world, r work, tried []int) (server int, done func(status int))
}

// A work is one request.
type work struct {
	client, url int
	post        bool
	length      float64 // times as long as usual
	left        int     // retries
}

// A server has places, and a queue before them.
type server struct {
	places int
	speed  float64
	fault  func(w *world, r work) (status int, took time.Duration, ok bool)
	busy   int
	queue  []func()

	shares  int // calls measured
	work    time.Duration
	peak    int
	peaked  time.Duration
	flying  int
	service func(w *world) time.Duration
}

type event struct {
	at       time.Duration
	sequence int
	do       func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].sequence < e[j].sequence
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

const usual = 20 * time.Millisecond

func newWorld(seed uint64, servers int) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, seed)), now: time.Hour, from: time.Hour}
	for range servers {
		w.servers = append(w.servers, &server{places: 16, speed: 1})
	}
	return w
}

func (w *world) after(d time.Duration, do func()) {
	w.sequence++
	heap.Push(&w.events, event{w.now + d, w.sequence, do})
}

// run lets d pass.
func (w *world) run(d time.Duration) {
	end := w.now + d
	for len(w.events) > 0 && w.events[0].at <= end {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = end
}

// measure forgets what was counted.
func (w *world) measure() {
	w.from, w.took, w.calls, w.bad = w.now, nil, 0, 0
	for _, s := range w.servers {
		s.shares, s.work, s.peak = 0, 0, 0
	}
}

// call sends r through a gateway, and calls then at its end.
func (w *world) call(g chooser, r work, then func()) {
	w.attempt(g, r, nil, w.now, then)
}

func (w *world) attempt(g chooser, r work, tried []int, came time.Duration, then func()) {
	i, done := g.pick(w, r, tried)
	if i < 0 {
		w.after(time.Millisecond, func() { w.attempt(g, r, tried, came, then) })
		return
	}
	s := w.servers[i]
	s.shares++
	s.flying++
	if s.flying > s.peak {
		s.peak, s.peaked = s.flying, w.now
	}
	w.serve(s, r, func(status int) {
		s.flying--
		done(status)
		if status >= 500 && !r.post && r.left > 0 {
			again := r
			again.left--
			w.attempt(g, again, append(slices.Clone(tried), i), came, then)
			return
		}
		w.calls++
		if status >= 400 {
			w.bad++
		}
		if came >= w.from {
			w.took = append(w.took, w.now-came)
		}
		then()
	})
}

func (w *world) serve(s *server, r work, done func(status int)) {
	if s.fault != nil {
		if status, took, ok := s.fault(w, r); ok {
			w.after(took, func() { done(status) })
			return
		}
	}
	begin := func() {
		s.busy++
		d := time.Duration(float64(usual) * cmp.Or(r.length, 1) / s.speed)
		if s.service != nil {
			d = s.service(w)
		}
		s.work += d
		w.after(d, func() {
			s.busy--
			if len(s.queue) > 0 {
				next := s.queue[0]
				s.queue = s.queue[1:]
				next()
			}
			done(200)
		})
	}
	if s.busy < s.places {
		begin()
		return
	}
	s.queue = append(s.queue, begin)
}

// closed starts clients that send one request after another, of kind.
func (w *world) closed(clients int, kind func(client int) work) {
	for c := range clients {
		g := w.gates[c%len(w.gates)]
		var next func()
		next = func() { w.call(g, kind(c), func() { w.after(0, next) }) }
		w.after(time.Duration(w.random.IntN(int(usual))), next)
	}
}

// openLoop sends requests at random instants, rate in the second.
func (w *world) openLoop(rate float64, kind func(client int) work) {
	var next func()
	n := 0
	next = func() {
		n++
		w.call(w.gates[w.random.IntN(len(w.gates))], kind(n%100), func() {})
		w.after(time.Duration(w.random.ExpFloat64()/rate*float64(time.Second)), next)
	}
	w.after(0, next)
}

// plain is work of one kind.
func plain(client int) work { return work{client: client} }

// share returns the share of a server.
func (w *world) share(i int) float64 {
	sum := 0
	for _, s := range w.servers {
		sum += s.shares
	}
	return float64(w.servers[i].shares) / float64(max(sum, 1))
}

// quantile returns how long the part q of the requests took at most.
func (w *world) quantile(q float64) time.Duration {
	if len(w.took) == 0 {
		return 0
	}
	slices.Sort(w.took)
	return w.took[min(int(math.Ceil(q*float64(len(w.took)))), len(w.took)-1)]
}

// A book is the chooser of the gateway.
type book struct {
	b       *choose.Book
	servers []*choose.Server
	w       *world
	key     func(work) uint64 // affinity, if it is not nil
	bound   float64
	moved   int
}

// books gives each of n gateways a Book of the servers with these weights.
func (w *world) books(n int, slowStart time.Duration, weights ...int) {
	for range n {
		k := &book{w: w}
		k.b = choose.New(func(c choose.Change) { w.changes = append(w.changes, c) }, w.random.Uint64)
		k.set(slowStart, len(w.servers), weights...)
		w.gates = append(w.gates, k)
	}
}

// set puts the first n servers into the book.
func (k *book) set(slowStart time.Duration, n int, weights ...int) {
	var members []choose.Member
	for i := range n {
		if len(k.servers) == i {
			k.servers = append(k.servers, &choose.Server{ID: uint64(i) + 1})
		}
		m := choose.Member{Server: k.servers[i], Weight: 1}
		if len(weights) > 0 {
			m.Weight = weights[i]
		}
		members = append(members, m)
	}
	k.b.Set(choose.Instant(k.w.now), members, slowStart)
}

func (k *book) pick(w *world, r work, tried []int) (int, func(int)) {
	q := choose.Request{Route: choose.Route{Name: "main"}, Repeatable: !r.post, Client: uint64(r.client + 1)}
	if k.key != nil {
		q.Key, q.Bound = k.key(r), k.bound
	}
	for _, i := range tried {
		q.Tried = append(q.Tried, k.servers[i])
	}
	c, _ := k.b.Pick(choose.Instant(w.now), q)
	if c == nil {
		return -1, nil
	}
	if c.Moved {
		k.moved++
	}
	return slices.Index(k.servers, c.Server), func(status int) {
		at := choose.Instant(w.now)
		if status != 0 {
			c.Head(at, status < 300, false)
		}
		c.Judge(at, classOf(status), 0)
		c.End(at)
	}
}

func classOf(status int) choose.Class {
	switch {
	case status == 0 || status == 500 || status >= 502 && status <= 504:
		return choose.Failure
	case status == 429:
		return choose.Unknown
	case status >= 500:
		return choose.Error
	case status >= 400:
		return choose.Rejection
	case status >= 300:
		return choose.Redirect
	}
	return choose.Good
}

// fails makes a server answer with status after took, to a part of the requests.
func fails(status int, took time.Duration, part float64) func(*world, work) (int, time.Duration, bool) {
	return func(w *world, _ work) (int, time.Duration, bool) {
		return status, took, part >= 1 || w.random.Float64() < part
	}
}
