package journal

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// A poster sends writes and matches the responses to them. Writes of many goroutines are
// on their way at once, the responses arrive on one subscription, and one flush serves all
// writes that were stored before it began. A writer is woken once: when its write is stored
// and flushed.
type poster struct {
	j     *Journal
	inbox string // of the responses, without the last token
	sub   *nats.Subscription
	done  sync.WaitGroup

	mu       sync.Mutex
	closed   bool             // guarded by mu
	token    uint64           // guarded by mu; of the latest post
	open     map[uint64]*post // guarded by mu; by token; without a response
	timer    *time.Timer      // guarded by mu; of the next sweep; nil: none is needed
	stored   []*post          // guarded by mu; to be flushed
	flushing bool             // guarded by mu; a flush of stored is about to begin
}

// A post is one try of a write.
type post struct {
	ctx   context.Context
	w     Write
	m     *nats.Msg
	again bool // an earlier try may have been stored
	sent  time.Time
	seq   uint64 // once stored

	// then is called once, with the result. It must not block.
	then func(seq uint64, err error)
}

func (p *poster) start(j *Journal) error {
	p.j, p.open = j, make(map[uint64]*post)
	p.inbox = j.nc.NewInbox() + "."
	var err error
	p.sub, err = j.nc.Subscribe(p.inbox+"*", p.hear)
	return err
}

// close ends all posts, and waits for the running flush.
func (p *poster) close() {
	p.mu.Lock()
	p.closed = true
	open, stored := p.open, p.stored
	p.open, p.stored = nil, nil
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	for _, one := range open {
		one.then(0, ErrClosed)
	}
	for _, one := range stored {
		one.then(0, ErrClosed)
	}
	p.sub.Unsubscribe() // fails only if the connection is closed
	p.done.Wait()
}

// send sends a write.
func (p *poster) send(one *post) {
	one.sent = time.Now()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		one.then(0, ErrClosed)
		return
	}
	p.token++
	token := p.token
	p.open[token] = one
	if p.timer == nil {
		p.timer = time.AfterFunc(p.j.try()/4, p.sweep)
	}
	p.mu.Unlock()
	one.m.Reply = p.inbox + strconv.FormatUint(token, 36)
	if err := p.j.nc.PublishMsg(one.m); err != nil && p.take(token) != nil {
		one.then(0, p.j.mapError(err))
	}
}

// take removes a post, or returns nil if another has.
func (p *poster) take(token uint64) *post {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.open[token]
	delete(p.open, token)
	return one
}

// sweep ends the posts that have had no response for the time of a try, and those whose
// context has ended.
func (p *poster) sweep() {
	p.mu.Lock()
	var late []*post
	for token, one := range p.open {
		if time.Since(one.sent) >= p.j.try() || one.ctx.Err() != nil {
			late = append(late, one)
			delete(p.open, token)
		}
	}
	switch {
	case p.closed:
	case len(p.open) > 0:
		p.timer.Reset(p.j.try() / 4)
	case p.timer != nil:
		p.timer.Stop()
		p.timer = nil
	}
	p.mu.Unlock()
	for _, one := range late {
		err := one.ctx.Err()
		if err == nil {
			err = context.DeadlineExceeded
		}
		one.then(0, p.j.mapError(err))
	}
}

// hear receives the response to a post.
func (p *poster) hear(answer *nats.Msg) {
	token, err := strconv.ParseUint(answer.Subject[len(p.inbox):], 36, 64)
	if err != nil {
		return
	}
	one := p.take(token)
	if one == nil {
		return // too late
	}
	if len(answer.Data) == 0 && answer.Header.Get("Status") == "503" {
		one.then(0, p.j.mapError(nats.ErrNoResponders))
		return
	}
	seq, err := p.j.acked(answer.Data)
	if one.again && errors.Is(err, ErrStale) {
		go func() { // ends with the request
			ctx, cancel := context.WithTimeout(one.ctx, p.j.try())
			defer cancel()
			seq, err := p.j.mine(ctx, one.m)
			p.settle(one, seq, err)
		}()
		return
	}
	p.settle(one, seq, err)
}

// settle is called with the server's response. If the write has to be flushed, its writer
// gets the result after that.
func (p *poster) settle(one *post, seq uint64, err error) {
	if err != nil || !p.j.flushes || one.w.Unflushed {
		one.then(seq, err)
		return
	}
	if f := p.j.localFlusher(); one.w.Mine && f != nil {
		f.Begin(p.j.names.stream())
		one.then(seq, nil)
		return
	}
	one.seq = seq
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		one.then(0, ErrClosed)
		return
	}
	defer p.mu.Unlock()
	p.stored = append(p.stored, one)
	if !p.flushing {
		p.flushing = true
		p.done.Add(1)
		go p.flush()
	}
}

// flush flushes what is stored. Others can ask for a flush meanwhile: the server shares
// each flush among all who asked before it began.
func (p *poster) flush() {
	defer p.done.Done()
	p.mu.Lock()
	all := p.stored
	p.stored, p.flushing = nil, false
	p.mu.Unlock()
	if len(all) == 0 {
		return // closed
	}
	ctx, cancel := context.WithTimeout(p.j.life, p.j.try())
	defer cancel()
	err := p.j.flush(ctx)
	if p.j.life.Err() != nil {
		err = ErrClosed
	}
	for _, one := range all {
		if err != nil {
			one.seq = 0
		}
		one.then(one.seq, err)
	}
}
