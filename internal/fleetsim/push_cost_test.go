package fleetsim_test

import (
	"context"
	"math"
	"math/rand/v2"
	"sort"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/histories"
)

// Pushed values bring the commands per Get close to the least that remains: two for each
// load. Eight instances get requests for keys by Zipf's law with exponent 1. The least
// is computed as in lab/fleetscale, for values that are pushed to all and to none.
func TestPushedValuesSaveCommands(t *testing.T) {
	const instances, ttl = 8, time.Minute
	keys, gets := histories.Count(100, 400), histories.Count(300, 1200) // of an instance in a TTL
	for _, pushes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			tier := fleet.NewMemory(fleet.MemoryOptions{})
			load := func(_ context.Context, key int) (int, error) {
				time.Sleep(5 * time.Millisecond)
				return key, nil
			}
			var all []*weir.Guard[int, int]
			for range instances {
				g, err := weir.New(load, weir.Options{
					Name: "cost", TTL: ttl,
					Fleet: weir.Fleet{Config: fleet.Config{Tier: tier, MemoryCap: ttl, PushValues: pushes}},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = g.Close(context.Background()) }()
				all = append(all, g)
			}
			upTo := make([]float64, keys)
			sum, least := 0.0, 0.0
			for k := range upTo {
				sum += 1 / float64(k+1)
				upTo[k] = sum
			}
			for k := range upTo {
				x := float64(gets) / sum / float64(k+1)
				asks := (instances - 1) * -math.Expm1(-x)
				if pushes {
					asks = 0
				}
				least += instances * x / (1 + instances*x) * (2 + asks)
			}
			least /= float64(instances * gets)
			commands := func() (n uint64) {
				for _, g := range all {
					s := g.Stats().Fleet
					n += s.Acquires + s.Settled + s.TagReads + s.Writes
				}
				return n
			}
			r := rand.New(rand.NewPCG(1, 2))
			run := func(ttls int) {
				for range ttls * instances * gets {
					time.Sleep(ttl / time.Duration(instances*gets))
					key, g := sort.SearchFloat64s(upTo, r.Float64()*sum), all[r.IntN(instances)]
					if v, err := g.Get(context.Background(), key); v != key || err != nil {
						t.Fatalf("Get(%d) = %d, %v", key, v, err)
					}
				}
			}
			run(20) // a key's values are pushed for 17 stores, and then one is not
			const measured = 20
			before := commands()
			run(measured)
			got := float64(commands()-before) / float64(measured*instances*gets)
			t.Logf("pushes %v: %.4f commands per Get; the least is %.4f", pushes, got, least)
			if got < least*0.95 || got > least*1.25 {
				t.Errorf("pushes %v: %.4f commands per Get; want %.4f or a little more", pushes, got, least)
			}
		})
	}
}
