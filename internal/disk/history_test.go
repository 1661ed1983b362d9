package disk_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/disk"
	"github.com/weir-go/weir/internal/histories"
)

// A model is what a Store may return: which values were put, and what removed them.
type model struct {
	t       *testing.T
	r       *rand.Rand
	m       *machine
	objects int
	s       *disk.Store
	log     *slog.Logger
	lines   *bytes.Buffer
	time    int
	puts    []made
	gone    []gone
	alive   int // the time of the last start
}

type made struct {
	at           int
	key, variant string
	all          bool
	tags         []string
	body         []byte
}

// A gone is a removal. It is sure once it is durable, or while the process lives.
type gone struct {
	at       int
	soft     bool
	all      bool
	key, tag string
	durable  bool
}

func (g gone) affects(p made) bool {
	if g.at < p.at {
		return false
	}
	return g.all || g.key != "" && g.key == p.key || g.tag != "" && strings.Contains(" "+strings.Join(p.tags, " ")+" ", " "+g.tag+" ")
}

func (m *model) open() {
	m.t.Helper()
	s, err := disk.Open(disk.Options{Folder: "/f", Bytes: disk.MinBytes, Objects: m.objects, QueueBytes: 1 << 20, Files: m.m, Logger: m.log})
	if err != nil {
		m.t.Fatalf("Open: %v", err)
	}
	m.s, m.alive = s, m.time
}

func (m *model) one(names string) string { return string(names[m.r.IntN(len(names))]) }

func (m *model) put() {
	m.time++
	p := made{at: m.time, key: m.one("abcdefgh"), variant: m.one("xy"), all: m.r.IntN(8) == 0}
	for range m.r.IntN(3) {
		p.tags = append(p.tags, "t"+m.one("123"))
	}
	size := m.r.IntN(300)
	if m.r.IntN(6) == 0 {
		size = m.r.IntN(3 * disk.BlockSize)
	}
	p.body = bytes.Repeat(fmt.Appendf(nil, "%d of %s %s. ", p.at, p.key, p.variant), size/10+1)
	m.puts = append(m.puts, p)
	m.log.Info("put", "at", p.at, "key", p.key, "variant", p.variant, "all", p.all, "tags", p.tags)
	m.s.Put(disk.Record{Key: p.key, Variant: p.variant, All: p.all, Tags: p.tags, Head: []byte(fmt.Sprint(p.at, " ", p.variant)), Body: p.body})
}

func (m *model) remove() {
	m.time++
	g := gone{at: m.time, soft: m.r.IntN(3) == 0}
	var t disk.Ticket
	switch n := m.r.IntN(20); {
	case n == 0:
		g.all = true
		t = m.s.PurgeAll(g.soft)
	case n < 6:
		g.tag = "t" + m.one("123")
		t = m.s.PurgeTags(g.soft, g.tag)
	default:
		g.key = m.one("abcdefgh")
		t = purge(m.s, g.key, g.soft)
	}
	if m.r.IntN(2) == 0 {
		g.durable = m.s.Sync(m.t.Context(), t) == nil
	}
	m.gone = append(m.gone, g)
	m.log.Info("gone", "removal", fmt.Sprintf("%+v", g), "ticket", t)
}

// get checks what the Store returns for a key.
func (m *model) get(key, variant string) bool {
	m.t.Helper()
	e := m.s.Get(key, func(head []byte) bool { return strings.HasSuffix(string(head), " "+variant) })
	if e == nil {
		return false
	}
	defer e.Close()
	at := 0
	_, _ = fmt.Sscan(string(e.Head), &at)
	var p made
	for _, q := range m.puts {
		if q.at == at {
			p = q
		}
	}
	if p.key != key || p.variant != variant {
		m.t.Fatalf("Get(%q, %q) = record %q, of %q, %q", key, variant, e.Head, p.key, p.variant)
	}
	if body, err := e.Body(); err == nil && !bytes.Equal(body, p.body) {
		m.t.Fatalf("Get(%q) has a torn body of %d bytes; want %d", key, len(body), len(p.body))
	}
	for _, g := range m.gone {
		sure := g.durable || g.at > m.alive
		switch {
		case sure && !g.soft && g.affects(p):
			m.t.Fatalf("Get(%q, %q) has the record of %d, which %+v removed", key, variant, p.at, g)
		case sure && g.soft && g.affects(p) && !e.Soft:
			m.t.Fatalf("Get(%q, %q) has the record of %d as if %+v had not expired it", key, variant, p.at, g)
		}
	}
	for _, q := range m.puts {
		if q.at > p.at && q.at > m.alive && q.key == key && (q.all || q.variant == variant) {
			m.t.Fatalf("Get(%q, %q) has the record of %d, which that of %d replaced", key, variant, p.at, q.at)
		}
	}
	return true
}

func (m *model) getAll() (found int) {
	m.t.Helper()
	for _, key := range "abcdefgh" {
		for _, variant := range "xy" {
			if m.get(string(key), string(variant)) {
				found++
			}
		}
	}
	return found
}

// crash ends the process, at any point of its work, and starts it again.
func (m *model) crash() {
	m.t.Helper()
	m.log.Info("crash", "at", m.time)
	if m.r.IntN(2) == 0 {
		synctest.Wait() // everything is written
	}
	lost := m.r.IntN(2) == 0
	old := m.s
	m.m.kill()
	next := m.m.boot(m.r, lost)
	_ = old.Close(m.t.Context())
	m.m = next
	m.time++
	m.open()
}

// fault lets operations of one to three kinds fail for a while.
func (m *model) fault() {
	r := rand.New(rand.NewPCG(m.r.Uint64(), 1))
	which := []string{"write", "create", "sync", "rename", "flush", "remove", "truncate", "read"}
	r.Shuffle(len(which), func(i, j int) { which[i], which[j] = which[j], which[i] })
	which = which[:1+r.IntN(3)]
	m.log.Info("fault", "ops", which)
	var mu sync.Mutex // the goroutines of the Store meet here
	m.m.setFault(func(op, _ string, size int) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(which, op) || r.IntN(2) == 0 {
			return size, nil
		}
		return r.IntN(size + 1), syscall.ENOSPC
	})
}

// TestH28_NothingTornOrPurgedComesBack runs random histories with crashes of the
// process and of the machine, and with operations that fail.
func TestH28_NothingTornOrPurgedComesBack(t *testing.T) {
	found, seeds := 0, 0
	for seed := range histories.Seeds(t, 60, 400) {
		seeds++
		synctest.Test(t, func(t *testing.T) {
			m := &model{t: t, r: rand.New(rand.NewPCG(seed, 28)), m: newMachine(), objects: []int{6, 20, 100}[seed%3]}
			m.log, m.lines = logger()
			m.open()
			defer func() {
				m.m.setFault(nil)
				_ = m.s.Close(t.Context())
				if t.Failed() {
					t.Logf("seed %d, log:\n%s", seed, m.lines)
				}
			}()
			for range 150 {
				switch n := m.r.IntN(40); {
				case n < 20:
					m.put()
				case n < 28:
					m.remove()
				case n < 34:
					found += m.getAll()
				case n < 36:
					synctest.Wait()
				case n < 37:
					m.crash()
					found += m.getAll()
				case n < 38:
					m.fault()
				case n < 39:
					m.m.setFault(nil)
					time.Sleep(disk.DefaultPause + time.Second) // it may write again
				default:
					m.m.setFault(nil)
					m.time++
					if err := m.s.Close(t.Context()); err != nil {
						t.Fatalf("Close: %v", err)
					}
					m.open()
				}
			}
		})
	}
	if found < 10*seeds && !histories.Alone() {
		t.Errorf("%d records were found in %d histories; is the test looking?", found, seeds)
	}
}
