package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// settle is how long after a fault its effects may last: breakers close, connection
// pools are renewed, jobs wait for their leases.
const settle = 10 * time.Second

// A fault is one of the faults that a soak injects, with its share.
type fault struct {
	kind   string
	weight int
	// happens injects the fault, lasts for d, and repairs it.
	happens func(s *soak, ctx context.Context, r *rand.Rand, d time.Duration) error
}

// faults are all the faults. None of them ends the process of the first gateway, so
// its memory can be watched.
var faults = []fault{
	{"weir killed", 10, (*soak).killGateway},
	{"weir asked to end, and started again", 5, (*soak).restartGateway},
	{"weir stopped", 10, (*soak).pauseGateway},
	{"Redis killed, back empty", 7, func(s *soak, ctx context.Context, r *rand.Rand, d time.Duration) error {
		return s.killRedis(ctx, d, false)
	}},
	{"Redis back from an old snapshot", 7, func(s *soak, ctx context.Context, r *rand.Rand, d time.Duration) error {
		return s.killRedis(ctx, d, true)
	}},
	{"Redis stopped", 7, (*soak).pauseRedis},
	{"one weir cut off from Redis", 12, (*soak).cutLink},
	{"lossy link to Redis", 10, (*soak).delayLink},
	{"connections to Redis reset", 5, (*soak).resetLink},
	{"slow source", 6, (*soak).slowSource},
	{"configuration reloaded", 8, func(s *soak, ctx context.Context, r *rand.Rand, _ time.Duration) error {
		return s.reload(ctx, r, false)
	}},
	{"certificate renewed", 6, func(s *soak, ctx context.Context, r *rand.Rand, _ time.Duration) error { return s.reload(ctx, r, true) }},
	{"disk full", 5, (*soak).fillDisk},
	{"NATS server killed", 8, func(s *soak, ctx context.Context, r *rand.Rand, d time.Duration) error {
		return s.breakNode(ctx, r, d, true)
	}},
	{"NATS server stopped", 8, func(s *soak, ctx context.Context, r *rand.Rand, d time.Duration) error {
		return s.breakNode(ctx, r, d, false)
	}},
}

// possible returns the faults that this soak can inject, and why it cannot inject the
// others.
func (s *soak) possible() (can []fault, not map[string]string) {
	not = make(map[string]string)
	for _, f := range faults {
		switch {
		case f.kind == "disk full" && s.o.Cluster:
			not[f.kind] = "the gateways keep no jobs"
		case f.kind == "disk full" && s.disk == "":
			not[f.kind] = "only root can mount a small file system"
		case (f.kind == "NATS server killed" || f.kind == "NATS server stopped") && !s.o.Cluster:
			not[f.kind] = "the gateways keep the jobs themselves"
		default:
			can = append(can, f)
		}
	}
	return can, not
}

// breakThings injects faults one after another until ctx ends. The effects of a fault
// can still last when the next one begins.
func (s *soak) breakThings(ctx context.Context) {
	r := rand.New(rand.NewPCG(s.o.Seed, 0))
	can, _ := s.possible()
	total := 0
	for _, f := range can {
		total += f.weight
	}
	for rest(ctx, time.Duration(float64(s.o.Every)*(0.5+r.Float64()))) {
		n := r.IntN(total)
		for _, f := range can {
			if n -= f.weight; n >= 0 {
				continue
			}
			d := time.Duration((0.2 + r.ExpFloat64()) * float64(s.o.Every) / 4)
			s.say("%s, %v", f.kind, d.Round(time.Millisecond))
			// A fault is always repaired: ctx only ends the pauses.
			if err := f.happens(s, ctx, r, min(d, s.o.Every)); err != nil {
				s.ledger.bad(badFault, "%s: %v", f.kind, err)
			}
			break
		}
	}
}

// mending returns a context for repairing a fault, which must happen even after the
// end of ctx.
func mending() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 2*time.Minute)
}

// at explains all errors of one gateway for the kinds ops, or for every kind if ops
// is empty.
func at(index int, ops ...string) func(int, string) bool {
	return func(where int, op string) bool {
		if where != index && index >= 0 {
			return false
		}
		if len(ops) == 0 {
			return true
		}
		for _, o := range ops {
			if o == op {
				return true
			}
		}
		return false
	}
}

// everywhere stands for all gateways.
const everywhere = -1

// during keeps a fault in the ledger while f runs, and for settle after it.
func (s *soak) during(kind string, explains func(int, string) bool, f func() error) error {
	w := s.ledger.begin(kind, explains)
	err := f()
	s.after(settle, func() { s.ledger.end(w) })
	return err
}

// cutOff records in the ledger that a gateway ("" for all) may miss purges while f
// runs.
func (s *soak) cutOff(who string, f func() error) error {
	mended := s.ledger.check.Cut(who)
	err := f()
	s.after(settle, mended)
	return err
}

// killable returns a gateway other than the first, whose memory is watched.
func (s *soak) killable(r *rand.Rand) *gateway { return s.gateways[1+r.IntN(len(s.gateways)-1)] }

func (s *soak) killGateway(ctx context.Context, r *rand.Rand, d time.Duration) error {
	g := s.killable(r)
	return s.restart(ctx, "weir killed", g, d, g.kill)
}

func (s *soak) restartGateway(ctx context.Context, r *rand.Rand, d time.Duration) error {
	g := s.killable(r)
	return s.restart(ctx, "weir asked to end, and started again", g, d, func() {
		if !g.stop() {
			s.ledger.bad(badFault, "%s did not end in %v after its signal", g.name, stopGrace)
		}
	})
}

// restart ends a gateway and starts it again. Other gateways take over the cluster
// jobs that it had begun, so the fault also explains their errors.
func (s *soak) restart(ctx context.Context, kind string, g *gateway, d time.Duration, end func()) error {
	explains := at(g.index)
	if s.o.Cluster {
		explains = func(where int, op string) bool { return where == g.index || op == opUnsafe }
	}
	return s.during(kind, explains, func() error {
		return s.cutOff(fmt.Sprint(g.index), func() error {
			end()
			rest(ctx, d)
			mend, cancel := mending()
			defer cancel()
			return g.start(mend)
		})
	})
}

func (s *soak) pauseGateway(ctx context.Context, r *rand.Rand, d time.Duration) error {
	g := s.gateways[r.IntN(len(s.gateways))]
	explains := at(g.index)
	if s.o.Cluster {
		explains = func(where int, op string) bool { return where == g.index || op == opUnsafe }
	}
	return s.during("weir stopped", explains, func() error {
		return s.cutOff(fmt.Sprint(g.index), func() error {
			if err := g.signal(syscall.SIGSTOP); err != nil {
				return err
			}
			rest(ctx, d)
			return g.signal(syscall.SIGCONT)
		})
	})
}

// nothing explains no error: clients must not notice the fault.
func nothing(int, string) bool { return false }

func (s *soak) killRedis(ctx context.Context, d time.Duration, old bool) error {
	kind := "Redis killed, back empty"
	if old {
		kind = "Redis back from an old snapshot"
		mend, cancel := mending()
		defer cancel()
		if err := s.redis.snapshot(mend); err != nil {
			return err
		}
		rest(ctx, d) // the snapshot becomes old
	}
	return s.during(kind, nothing, func() error {
		return s.cutOff("", func() error {
			over := s.ledger.losing()
			defer s.after(settle, over)
			s.redis.kill()
			rest(ctx, d)
			mend, cancel := mending()
			defer cancel()
			return s.redis.reload(mend, old)
		})
	})
}

func (s *soak) pauseRedis(ctx context.Context, _ *rand.Rand, d time.Duration) error {
	return s.during("Redis stopped", nothing, func() error {
		return s.cutOff("", func() error {
			if err := s.redis.signal(syscall.SIGSTOP); err != nil {
				return err
			}
			rest(ctx, d)
			return s.redis.signal(syscall.SIGCONT)
		})
	})
}

// onLink injects a fault into a gateway's link to Redis.
func (s *soak) onLink(ctx context.Context, kind string, r *rand.Rand, d time.Duration, breaks func(g *gateway) error) error {
	g := s.gateways[r.IntN(len(s.gateways))]
	return s.during(kind, nothing, func() error {
		return s.cutOff(fmt.Sprint(g.index), func() error {
			if err := breaks(g); err != nil {
				return err
			}
			rest(ctx, d)
			mend, cancel := mending()
			defer cancel()
			return g.link.Heal(mend)
		})
	})
}

func (s *soak) cutLink(ctx context.Context, r *rand.Rand, d time.Duration) error {
	return s.onLink(ctx, "one weir cut off from Redis", r, d, func(g *gateway) error { return g.link.Cut() })
}

// delayLink imitates packet loss as seen above TCP: data arrives late.
func (s *soak) delayLink(ctx context.Context, r *rand.Rand, d time.Duration) error {
	late := time.Duration(20+r.IntN(200)) * time.Millisecond
	return s.onLink(ctx, "lossy link to Redis", r, d, func(g *gateway) error { return g.link.Delay(late, late) })
}

func (s *soak) resetLink(ctx context.Context, r *rand.Rand, d time.Duration) error {
	return s.onLink(ctx, "connections to Redis reset", r, d, func(g *gateway) error { return g.link.Reset() })
}

func (s *soak) slowSource(ctx context.Context, _ *rand.Rand, d time.Duration) error {
	asks := at(everywhere, opPage, opCold, opMine, opRange, opStream, opUpload, opJob, opUnsafe)
	return s.during("slow source", asks, func() error {
		s.source.slow.Store(true)
		rest(ctx, d)
		s.source.slow.Store(false)
		return nil
	})
}

// reload makes a gateway reload its configuration, with a new certificate or another
// timeout. Clients must not notice.
func (s *soak) reload(ctx context.Context, r *rand.Rand, certificate bool) error {
	kind := "configuration reloaded"
	if certificate {
		kind = "certificate renewed"
	}
	g := s.gateways[r.IntN(len(s.gateways))]
	return s.during(kind, nothing, func() error {
		g.reloads++
		if certificate {
			if err := g.renew(); err != nil {
				return err
			}
		} else if err := g.write(s.source.url, s.nats); err != nil {
			return err
		}
		if err := g.signal(syscall.SIGHUP); err != nil {
			return err
		}
		if !certificate {
			return nil
		}
		mend, cancel := mending()
		defer cancel()
		for {
			serial, err := g.presented(mend)
			if err == nil && serial == g.serial {
				return nil
			}
			if !rest(mend, 100*time.Millisecond) {
				return fmt.Errorf("weir %d presents certificate %d, not %d: %v", g.index, serial, g.serial, err)
			}
		}
	})
}

// fillDisk fills the disk for the last gateway's jobs.
func (s *soak) fillDisk(ctx context.Context, _ *rand.Rand, d time.Duration) error {
	g := s.gateways[len(s.gateways)-1]
	name := filepath.Join(s.disk, "filler")
	return s.during("disk full", at(g.index, opJob, opUnsafe), func() error {
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		defer f.Close()
		block := make([]byte, 1<<20)
		for err == nil && ctx.Err() == nil {
			_, err = f.Write(block) // until the disk is full
		}
		rest(ctx, d)
		return os.Remove(name)
	})
}

func (s *soak) breakNode(ctx context.Context, r *rand.Rand, d time.Duration, kill bool) error {
	n := s.nodes[r.IntN(len(s.nodes))]
	kind := "NATS server stopped"
	if kill {
		kind = "NATS server killed"
	}
	return s.during(kind, at(everywhere, opJob, opUnsafe), func() error {
		if !kill {
			if err := n.signal(syscall.SIGSTOP); err != nil {
				return err
			}
			rest(ctx, d)
			return n.signal(syscall.SIGCONT)
		}
		n.kill()
		rest(ctx, d)
		mend, cancel := mending()
		defer cancel()
		return n.start(mend)
	})
}
