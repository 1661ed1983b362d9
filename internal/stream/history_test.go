package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/internal/stream"
)

// slack is how much may be held beyond the window: one chunk at its head.
const slack = 64 * kib

var errWait = errors.New("would wait")

// A model keeps all bytes written, and the position of every reader.
type model struct {
	o       stream.Options
	grows   bool // the window, without bound
	all     []byte
	readers []*modelReader
}

type modelReader struct {
	r   *stream.Reader
	pos int
}

// over reports whether the limit is passed after n bytes were written.
func (m *model) over(n int) bool { return m.o.Size > m.o.Limit || int64(n) > m.o.Limit }

// front returns the position of the foremost reader that is surely within the
// window (sure), and of the foremost reader at all (maybe).
func (m *model) front() (sure, maybe int) {
	sure, maybe = -1, -1
	for _, r := range m.readers {
		maybe = max(maybe, r.pos)
		if int64(r.pos) >= int64(len(m.all))-m.o.Window || !m.over(len(m.all)) {
			sure = max(sure, r.pos)
		}
	}
	return sure, maybe
}

// TestHistoryAgainstModel drives a Body from one goroutine, with a context that
// has ended: a call that would wait returns errWait instead.
func TestHistoryAgainstModel(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errWait)
	for seed := range histories.Seeds(t, 1000, 20_000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		money := newBudget(1 << 40)
		m := &model{o: stream.Options{
			Size:    -1,
			Limit:   rng.Int64N(10_000),
			Window:  1 + rng.Int64N(2000),
			Reserve: money.reserve,
		}}
		switch rng.IntN(3) {
		case 0:
			m.o.Grow, m.grows = money.reserve, true
		case 1:
			m.o.Grow = func(n int64) bool { return rng.IntN(2) == 0 && money.reserve(n) }
		}
		total := rng.IntN(20_000)
		if rng.IntN(2) == 0 {
			m.o.Size = int64(total)
		}
		b := stream.New(m.o)
		if err := m.run(ctx, b, rng, pattern(total)); err != nil {
			t.Fatalf("seed %d, %+v: %v", seed, m.o, err)
		}
		b.Release()
		if u := money.used.Load(); u != 0 {
			t.Fatalf("seed %d, %+v: %d bytes are reserved at the end; want 0", seed, m.o, u)
		}
	}
}

// run writes data in pieces, while readers join, read and leave.
func (m *model) run(ctx context.Context, b *stream.Body, rng *rand.Rand, data []byte) error {
	for steps := 0; len(m.all) < len(data) && steps < 10_000; steps++ {
		var err error
		switch rng.IntN(8) {
		case 0:
			err = m.join(b)
		case 1, 2, 3:
			piece := data[len(m.all):]
			piece = piece[:rng.IntN(min(len(piece), 900)+1)]
			var ended bool
			if ended, err = m.write(ctx, b, piece); ended {
				return m.end(ctx, b, false)
			}
		case 4:
			if k := len(m.readers); k > 0 && rng.IntN(8) == 0 {
				i := rng.IntN(k)
				m.readers[i].r.Close()
				m.readers = append(m.readers[:i], m.readers[i+1:]...)
			}
		default:
			if k := len(m.readers); k > 0 {
				err = m.read(ctx, m.readers[rng.IntN(k)])
			}
		}
		if err != nil {
			return fmt.Errorf("step %d, at %d: %w", steps, len(m.all), err)
		}
	}
	return m.end(ctx, b, len(m.all) == len(data))
}

func (m *model) join(b *stream.Body) error {
	// At exactly the limit, the body cannot know yet whether it will be passed.
	want := len(m.all) == 0 || !m.over(len(m.all))
	kept, r := b.Kept(), b.Join()
	if kept != (r != nil) || want != kept {
		return fmt.Errorf("Kept() = %v and Join() = %v; want %v", kept, r, want)
	}
	if r != nil {
		m.readers = append(m.readers, &modelReader{r: r})
	}
	return nil
}

func (m *model) write(ctx context.Context, b *stream.Body, p []byte) (ended bool, err error) {
	sure, maybe := m.front()
	n, err := b.Write(ctx, p)
	least := len(m.all) // the least it must have appended
	if m.o.Size <= m.o.Limit {
		least = max(least, int(min(int64(len(m.all)+len(p)), m.o.Limit)))
	}
	if sure >= 0 {
		least = max(least, min(len(m.all)+len(p), sure+int(m.o.Window)))
	}
	most := least // the most it may have appended
	if maybe >= 0 {
		most = max(least, min(len(m.all)+len(p), maybe+int(m.o.Window)))
	}
	m.all = append(m.all, p[:n]...)
	at := len(m.all)
	switch {
	case at < least || at > most:
		return false, fmt.Errorf("Write(%d bytes) = %d, %v; want to come to %d..%d", len(p), n, err, least, most)
	case err == nil && n != len(p):
		return false, fmt.Errorf("Write(%d bytes) = %d, nil", len(p), n)
	case err == nil:
		return false, nil
	case errors.Is(err, stream.ErrNobody) && sure < 0, errors.Is(err, errWait) && maybe >= 0:
		return true, nil
	}
	return false, fmt.Errorf("Write(%d bytes) = %d, %v with the foremost reader at %d..%d", len(p), n, err, sure, maybe)
}

func (m *model) read(ctx context.Context, r *modelReader) error {
	ready := r.r.Ready()
	p, err := r.r.Next(ctx)
	if ready == errors.Is(err, errWait) {
		return fmt.Errorf("Ready() = %v, but then Next = %v", ready, err)
	}
	behind := int64(len(m.all) - r.pos)
	switch {
	case errors.Is(err, stream.ErrLagged):
		if !m.over(len(m.all)) || behind <= m.o.Window || m.grows {
			return fmt.Errorf("reader at %d of %d got ErrLagged", r.pos, len(m.all))
		}
		return nil
	case errors.Is(err, errWait) && behind == 0:
		return nil
	case err != nil:
		return fmt.Errorf("reader at %d of %d: %w", r.pos, len(m.all), err)
	case m.o.Grow == nil && m.over(len(m.all)) && behind > m.o.Window+slack:
		return fmt.Errorf("reader %d behind got no ErrLagged", behind)
	case cap(p) != len(p):
		return fmt.Errorf("reader at %d got a slice with spare capacity", r.pos)
	case len(p) == 0 || r.pos+len(p) > len(m.all) || !bytes.Equal(p, m.all[r.pos:r.pos+len(p)]):
		return fmt.Errorf("reader at %d got %d bytes that differ", r.pos, len(p))
	}
	r.pos += len(p)
	return nil
}

func (m *model) end(ctx context.Context, b *stream.Body, complete bool) error {
	b.Finish(nil, nil)
	for _, r := range m.readers {
		for {
			p, err := r.r.Next(ctx)
			if err == nil {
				if !bytes.HasPrefix(m.all[r.pos:], p) {
					return fmt.Errorf("reader at %d got bytes that differ", r.pos)
				}
				r.pos += len(p)
				continue
			}
			lagged := errors.Is(err, stream.ErrLagged)
			if lagged && m.grows {
				return fmt.Errorf("reader at %d of %d ends with %w", r.pos, len(m.all), err)
			}
			if !lagged && (err == io.EOF) != complete || err == io.EOF && r.pos != len(m.all) {
				return fmt.Errorf("reader at %d of %d ends with %w; complete: %v", r.pos, len(m.all), err, complete)
			}
			break
		}
	}
	whole, ok := b.Whole()
	if want := complete && (len(m.all) == 0 || !m.over(len(m.all))) && m.o.Size <= m.o.Limit; ok != want {
		return fmt.Errorf("Whole() says %v; want %v", ok, want)
	}
	if ok && !bytes.Equal(whole, m.all) {
		return errors.New("Whole() differs")
	}
	return nil
}

// TestHistoryConcurrent has a writer, readers that come and go, a budget that
// runs out, and ends of every kind, all at the same time.
func TestHistoryConcurrent(t *testing.T) {
	for seed := range histories.Seeds(t, 50, 1500) {
		synctest.Test(t, func(t *testing.T) { concurrent(t, seed) })
	}
}

func concurrent(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	money := newBudget(rng.Int64N(600 * kib))
	data := pattern(rng.IntN(400 * kib))
	o := stream.Options{Size: -1, Limit: rng.Int64N(400 * kib), Window: 1 + rng.Int64N(100*kib), Reserve: money.reserve}
	if rng.IntN(2) == 0 {
		o.Size = int64(len(data))
	}
	if rng.IntN(2) == 0 {
		o.Grow = func(n int64) bool { return money.used.Load()+n <= money.bound.Load()*3/4 && money.reserve(n) }
	}
	if rng.IntN(2) == 0 {
		o.Patience = time.Duration(rng.IntN(500)) * time.Microsecond
	}
	b := stream.New(o)
	var broken error
	if rng.IntN(4) == 0 {
		broken = errors.New("broken")
	}
	var wg sync.WaitGroup
	for i := range 12 {
		rng := rand.New(rand.NewPCG(seed, uint64(i+2)))
		r := b.Join() // a third join at the start, the others later
		if i%3 != 0 {
			r.Close()
		}
		wg.Go(func() {
			if i%3 != 0 {
				time.Sleep(time.Duration(rng.IntN(1000)) * time.Microsecond)
				if r = b.Join(); r == nil {
					return
				}
			}
			follow(t, rng, r, data, broken)
		})
	}
	written := 0
	var err error
	for written < len(data) && err == nil {
		if rng.IntN(4) == 0 {
			time.Sleep(time.Duration(rng.IntN(100)) * time.Microsecond)
		}
		var n int
		n, err = b.Write(t.Context(), data[written:min(len(data), written+1+rng.IntN(20_000))])
		written += n
	}
	if err != nil && !errors.Is(err, stream.ErrNobody) {
		t.Errorf("seed %d: Write = %v", seed, err)
	}
	b.Finish(nil, broken)
	wg.Go(func() {
		if p, ok := b.Whole(); ok && (broken != nil || !bytes.Equal(p, data)) {
			t.Errorf("seed %d: Whole() = %d bytes that differ, or of a broken body", seed, len(p))
		}
	})
	time.Sleep(time.Duration(rng.IntN(100)) * time.Microsecond)
	b.Release()
	wg.Wait()
	if u := money.used.Load(); u != 0 {
		t.Errorf("seed %d: %d bytes are reserved at the end; want 0", seed, u)
	}
	if m := money.most.Load(); m > money.bound.Load() {
		t.Errorf("seed %d: %d bytes were reserved; the budget is %d", seed, m, money.bound.Load())
	}
}

// follow reads at its own pace, and may leave early.
func follow(t *testing.T, rng *rand.Rand, r *stream.Reader, data []byte, broken error) {
	defer r.Close()
	pos := 0
	for {
		switch rng.IntN(20) {
		case 0:
			time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
		case 1:
			if rng.IntN(10) == 0 {
				return
			}
		}
		p, err := r.Next(t.Context())
		switch {
		case err == nil:
			if !bytes.HasPrefix(data[pos:], p) || len(p) == 0 {
				t.Errorf("reader at %d got %d bytes that differ", pos, len(p))
			}
			pos += len(p)
			continue
		case err == io.EOF && (broken != nil || pos != len(data)):
			t.Errorf("reader at %d of %d, broken by %v, ends with EOF", pos, len(data), broken)
		case err != io.EOF && !errors.Is(err, stream.ErrLagged) && !errors.Is(err, stream.ErrNobody) && err != broken:
			t.Errorf("reader ends with %v", err)
		}
		return
	}
}
