package once

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/histories"
)

// TestH45_HistoriesWithCrashes compares Claims over a Folder, whose machine crashes at any
// step, with what a client may see (decision 0135): no call runs twice unless the server or
// an operator has said that it was not done, and what a client learns stays true.
func TestH45_HistoriesWithCrashes(t *testing.T) {
	for seed := range histories.Seeds(t, 60, 1000) {
		h := &history{t: t, rand: rand.New(rand.NewPCG(seed, 2)), disk: newFaultyDisk(seed), model: map[string]*modelled{}}
		if h.run(); t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, h.log)
		}
	}
}

// A modelled is what is known of a key.
type modelled struct {
	runs   int    // that may have been sent since the key was last free
	answer string // that a client has learnt, "" for none
	done   bool   // a client or operator has learnt that it is done
	doubt  bool   // a client has learnt that it is unknown
	maybe  bool   // an operation that frees it, or settles it, has failed: it may have happened or not
}

type history struct {
	t      *testing.T
	rand   *rand.Rand
	disk   *faultyDisk
	claims *Claims
	folder *Folder
	model  map[string]*modelled
	log    string
}

func (h *history) note(format string, args ...any) { h.log += fmt.Sprintf(format+"\n", args...) }

func (h *history) run() {
	for range 6 {
		h.start()
		for range 40 {
			if h.disk.crashed() || h.t.Failed() {
				break
			}
			h.act()
		}
		h.note("crash")
		_ = h.folder.Close(h.t.Context())
	}
}

// start opens the folder. That may need several machines, because they crash meanwhile.
func (h *history) start() {
	for {
		h.disk.restart(1 + h.rand.IntN(120))
		var err error
		if h.folder, err = OpenFolder(FolderOptions{Folder: "once", files: h.disk, slack: 4000}); err == nil {
			h.claims = NewClaims(h.folder)
			return
		} else if !errors.Is(err, errCrash) {
			h.t.Errorf("OpenFolder = %v", err)
			h.disk.restart(-1)
			return
		}
	}
}

func (h *history) act() {
	key := string(rune('a' + h.rand.IntN(8)))
	m := h.model[key]
	if m == nil {
		m = new(modelled)
		h.model[key] = m
	}
	if h.rand.IntN(10) == 0 {
		h.settle(key, m)
		return
	}
	e, err := h.claims.Begin(h.t.Context(), Call{
		ID: Sum(key), Fingerprint: Sum("f"), Credentials: Sum("c"), Principal: Sum(key), Route: "r", Name: "POST /", TTL: time.Hour, Reserve: 1000,
	})
	switch {
	case err != nil:
		h.note("%s: %v", key, err)
		if !h.disk.crashed() {
			h.t.Errorf("%s: Begin = %v", key, err)
		}
	case e.Run == nil:
		h.told(key, m, e.Record)
	case !e.Leads:
		h.t.Errorf("%s: joined a run that has ended", key)
	default:
		h.make(key, m, e.Run)
	}
}

// told checks what a client got.
func (h *history) told(key string, m *modelled, r Record) {
	h.note("%s: told %v %s", key, r.State, r.Body)
	if m.runs == 0 && !m.maybe {
		h.t.Errorf("%s: told %v of a call that never ran", key, r.State)
	}
	switch r.State {
	case Answered:
		if m.answer != "" && m.answer != string(r.Body) {
			h.t.Errorf("%s: told %s; want %s as before", key, r.Body, m.answer)
		}
		if m.answer == "" && m.doubt && !m.maybe {
			h.t.Errorf("%s: told %s after it was unknown", key, r.Body)
		}
		m.answer = string(r.Body)
	case Done:
		m.done = true
	case Unknown:
		if m.answer != "" || m.done && !m.maybe {
			h.t.Errorf("%s: told that it is unknown after the answer", key)
		}
		m.doubt = true
	}
}

// make makes a call.
func (h *history) make(key string, m *modelled, run *Run) {
	defer run.End("ended")
	if m.answer != "" || m.done {
		h.t.Errorf("%s: runs again after its answer", key)
	}
	if h.rand.IntN(6) == 0 {
		h.note("%s: refused before it is sent", key)
		return
	}
	if err := run.Claim(h.t.Context()); err != nil {
		h.note("%s: claim: %v", key, err)
		// It may be durable, and then the next process does not know that it was not sent.
		m.maybe = true
		if !h.disk.crashed() {
			h.t.Errorf("%s: Claim = %v", key, err)
		}
		return
	}
	if m.runs > 0 && !m.maybe {
		h.t.Errorf("%s: sent again", key)
	}
	*m = modelled{runs: 1}
	var err error
	switch h.rand.IntN(5) {
	case 0:
		h.note("%s: freed", key)
		if err = run.Free(); err == nil {
			*m = modelled{}
		} else {
			m.maybe = true
		}
	case 1:
		h.note("%s: doubted", key)
		if err = run.Doubt("no response"); err == nil {
			m.doubt = true
		}
	case 2:
		h.note("%s: lost", key)
	case 3:
		h.note("%s: done", key)
		if err = run.Finish("too large"); err == nil {
			m.done = true
		}
	default:
		answer := fmt.Sprint("answer ", h.rand.IntN(1000), strings.Repeat("x", h.rand.IntN(300)))
		h.note("%s: %s", key, answer)
		if err = run.Answer(Record{Status: 201, Header: http.Header{"A": {"b"}}, Body: []byte(answer)}); err == nil {
			m.answer = answer
		}
	}
	if err != nil {
		h.note("%s: %v", key, err)
		m.doubt = false // which of the two it is, the next process knows
	}
}

func (h *history) settle(key string, m *modelled) {
	done := h.rand.IntN(2) == 0
	err := h.claims.Settle(h.t.Context(), Sum(key), done)
	h.note("%s: settled as done %v: %v", key, done, err)
	switch {
	case err == nil && done:
		m.done, m.doubt = true, false
	case err == nil:
		if m.answer != "" {
			h.t.Errorf("%s: settled as not done after its answer", key)
		}
		*m = modelled{}
	case !errors.Is(err, ErrSettled):
		m.maybe = true
	}
}
