package weirhttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/weir-go/weir/internal/alarm"
	"github.com/weir-go/weir/internal/slow"
)

// A heldBody is the whole body of a read. The request has it, and so does each call
// that is made with it: a call may outlive its request. Its memory is given back when
// none has it any more.
type heldBody struct {
	rule  *readRule
	bytes []byte
	proof string
	mem   memory
	refs  atomic.Int64
}

func (b *heldBody) retain() *heldBody {
	b.refs.Add(1)
	return b
}

// release may be called on nil.
func (b *heldBody) release() {
	if b != nil && b.refs.Add(-1) == 0 {
		b.mem.giveBack()
	}
}

// heldBy returns the body of r, if r is a read that is looked up, else nil.
func heldBy(r *http.Request) *heldBody {
	if b, ok := r.Body.(*readBody); ok {
		return b.held
	}
	return nil
}

// proofOf returns the proof of r, "" if r is not a read with a body.
func proofOf(r *http.Request) string {
	if b := heldBy(r); b != nil {
		return b.proof
	}
	return ""
}

// rewind gives r, which is sent to the next handler, a body that begins at its start,
// if r is a read. r belongs to the caller.
func rewind(r *http.Request) {
	b := heldBy(r)
	if b == nil {
		return
	}
	body := newReadBody(b.bytes)
	body.held = b
	r.Body, r.ContentLength, r.TransferEncoding = body, int64(len(b.bytes)), nil
}

// A begun is a body of which a part was read, and which is forwarded as it arrives.
type begun struct {
	io.Reader
	io.Closer
}

// receive reads the body of r, up to the bound of the rule, and returns r with a body
// that has all of it. If the body is larger, or memory ran out, the result has no
// heldBody, and why is the reason. The memory of what was read is held until release.
func (h *Handler) receive(w http.ResponseWriter, r *http.Request, rule *readRule) (out *http.Request, held *heldBody, why string, err error) {
	held = &heldBody{rule: rule, mem: memory{budget: &h.cache.ahead, most: h.o.Clients.ReadAheadMemory}}
	held.refs.Store(1)
	if r.ContentLength > rule.most {
		return r, held, unsharedTooLong, nil
	}
	var bounds alarm.Alarm
	defer bounds.Stop()
	var client slow.Client
	client.Start(h.o.Clients.terms(), &bounds, h.cutter(w, nil))
	defer client.Close()
	body := aheadReader{client: &client, mem: &held.mem, src: r.Body, n: int(r.ContentLength)}
	if r.ContentLength < 0 {
		body.n, body.open = int(rule.most), true
	}
	if r.Body == nil {
		body.src = http.NoBody
	}
	read, got, err := body.read()
	if err != nil {
		return nil, held, "", readFailure(r.Context(), &client, err)
	}
	own := *r
	switch got {
	case gotAll:
		held.bytes = read
		whole := newReadBody(read)
		whole.held = held
		own.Body = whole
		return &own, held, "", nil
	case gotTooMuch:
		why = unsharedTooLong
	default:
		h.count.noMemory.Add(1)
		why = unsharedMemory
	}
	own.Body = begun{io.MultiReader(bytes.NewReader(read), r.Body), r.Body}
	return &own, held, why, nil
}

// readFailure returns the error of a request whose body could not be read because of
// err.
func readFailure(ctx context.Context, client *slow.Client, err error) error {
	switch {
	case client.Err() != nil:
		return client.Err()
	case errors.As(err, new(*http.MaxBytesError)):
		return err
	case isTimeout(err), errors.Is(err, io.ErrUnexpectedEOF), ctx.Err() == nil:
		return &bodyError{err}
	}
	return err
}

// A memory is what one body has taken from a budget.
type memory struct {
	budget *budget
	most   int64 // of the budget
	took   int64
}

// take takes n more bytes, and reports whether there were as many.
func (m *memory) take(n int64) bool {
	if !m.budget.take(n, m.most) {
		return false
	}
	m.took += n
	return true
}

func (m *memory) giveBack() {
	if m.budget != nil {
		m.budget.used.Add(-m.took)
	}
	m.took = 0
}

// ruleOf returns the rule of r, if r is a read that is looked up, else nil.
func ruleOf(r *http.Request) *readRule {
	if held := heldBy(r); held != nil {
		return held.rule
	}
	return nil
}
