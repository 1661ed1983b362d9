package model

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// A cache is what the histories run against.
type cache interface {
	get(ctx context.Context, key int) (int, error)
	getMany(ctx context.Context, wanted []int) map[int]int // without the keys that failed
	set(ctx context.Context, key, value int)
	forget(ctx context.Context, key, how int) // how selects one of the ways to invalidate
}

// An input and an output form a call as the model sees it.
type input struct {
	key   int
	write bool
	value int // only for a write
}

// register is the model: a read returns the last written value.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := make([][]porcupine.Operation, keys)
		for _, op := range history {
			key := op.Input.(input).key
			parts[key] = append(parts[key], op)
		}
		return parts
	},
	Init: func() any { return 0 },
	Step: func(state, in, out any) (bool, any) {
		if in := in.(input); in.write {
			return true, in.value
		}
		return out.(int) == state.(int), state
	},
}

// A recorder records when calls begin and end, using a shared counter, because the
// clock of a bubble often stands still.
type recorder struct {
	clock atomic.Int64
	mu    sync.Mutex
	ops   []porcupine.Operation // guarded by mu
}

func (r *recorder) begin() int64 { return r.clock.Add(1) }

func (r *recorder) end(client int, began int64, in input, out int) {
	op := porcupine.Operation{ClientId: client, Input: in, Call: began, Output: out, Return: r.clock.Add(1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, op)
}

// play runs clients that make random calls of c, and returns the recorded operations.
// Failed reads return no value and are left out.
func play(seed uint64, src *source, c cache, clients, calls int) []porcupine.Operation {
	var rec recorder
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(client)+2))
			for range calls {
				ctx, cancel := context.Background(), context.CancelFunc(func() {})
				if rng.IntN(4) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(1+rng.IntN(15))*time.Millisecond)
				}
				step(ctx, &rec, rng, client, src, c)
				cancel()
				time.Sleep(time.Duration(rng.IntN(8)) * time.Millisecond)
			}
		})
	}
	wg.Wait()
	return rec.ops
}

// step makes one random call.
func step(ctx context.Context, rec *recorder, rng *rand.Rand, client int, src *source, c cache) {
	key := rng.IntN(keys)
	switch n := rng.IntN(10); {
	case n < 6:
		began := rec.begin()
		if v, err := c.get(ctx, key); err == nil {
			rec.end(client, began, input{key: key}, v)
		}
	case n < 8:
		began := rec.begin()
		for key, v := range c.getMany(ctx, []int{key, (key + 1) % keys}) {
			rec.end(client, began, input{key: key}, v)
		}
	default:
		src.writers[key].Lock()
		defer src.writers[key].Unlock()
		began := rec.begin()
		v := src.write(key)
		if n == 8 {
			c.set(context.Background(), key, v)
		} else {
			c.forget(context.Background(), key, rng.IntN(4))
		}
		rec.end(client, began, input{key: key, write: true, value: v}, 0)
	}
}
