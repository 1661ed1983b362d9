package scenarios

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"
)

// An activity is the row that sql-to-nosql writes and reads.
type activity struct {
	ID       uuid
	User     uuid
	At       time.Time // whole milliseconds: both databases store that precision
	Document string    // JSON: a string of 100 letters
}

type uuid = [16]byte

// documentLetters is the length of the published document.
const documentLetters = 100

// newActivityID returns a new random id (RFC 9562, version 4).
func newActivityID() uuid {
	var id uuid
	rand.Read(id[:]) //nolint:errcheck // it never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// archivedID returns the id of the i-th activity in the archive.
func archivedID(i int) uuid {
	id := uuid{0: 0xa0, 6: 0x40, 8: 0x80}
	binary.BigEndian.PutUint32(id[12:], uint32(i))
	return id
}

// activityOf returns the activity with the given id. The same id always gives the
// same activity, so a database can be checked without a copy of its content.
func activityOf(id uuid) activity {
	r := mathrand.New(mathrand.NewPCG(binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])))
	a := activity{ID: id, At: time.UnixMilli(1_700_000_000_000 + r.Int64N(1_000_000_000)).UTC()}
	binary.BigEndian.PutUint64(a.User[8:], r.Uint64N(10_000))
	letters := [documentLetters + 2]byte{0: '"', documentLetters + 1: '"'}
	for i := range documentLetters {
		letters[i+1] = byte('a' + r.IntN(26))
	}
	a.Document = string(letters[:])
	return a
}

// same reports whether b is a as read back from a database.
func (a activity) same(b activity) bool {
	return a.ID == b.ID && a.User == b.User && a.At.Equal(b.At) && a.Document == b.Document
}

// An activityStore keeps activities in a database: a table of inserted ones, and an
// archive of others to read. It is safe for concurrent use.
type activityStore interface {
	insert(ctx context.Context, a activity) error
	// insertAll inserts activities in one statement.
	insertAll(ctx context.Context, all []activity) error
	find(ctx context.Context, id uuid) (activity, error)
	// findAll finds activities in one statement; missing ones are left out of the
	// map.
	findAll(ctx context.Context, ids []uuid) (map[uuid]activity, error)

	create(ctx context.Context) error                       // creates the tables
	archive(ctx context.Context, all []activity) error      // puts activities into the archive
	clear(ctx context.Context) error                        // deletes the inserted activities
	each(ctx context.Context, found func(a activity)) error // each inserted activity in the database
	close()
}

// An activityLedger records the results that callers got for their inserts, to
// compare them with the database. The zero ledger is empty.
type activityLedger struct {
	mu   sync.Mutex
	told []toldActivity // guarded by mu
}

type toldActivity struct {
	id     uuid
	stored bool // the caller got an acknowledgement; otherwise it got an error
}

func (l *activityLedger) tell(id uuid, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, toldActivity{id, err == nil})
}

func (l *activityLedger) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = l.told[:0]
}

// An activityCount is the result of a comparison.
type activityCount struct {
	Acknowledged int // inserts whose callers got an acknowledgement
	Failed       int // inserts whose callers got an error: stored or not
	Stored       int // rows in the database

	// The faults: each must be zero.
	Lost    int // acknowledged, but not in the database
	Doubled int // in the database more than once
	Unasked int // in the database, but never sent
	Wrong   int // in the database with different content
}

func (c *activityCount) add(o activityCount) {
	c.Acknowledged += o.Acknowledged
	c.Failed += o.Failed
	c.Stored += o.Stored
	c.Lost += o.Lost
	c.Doubled += o.Doubled
	c.Unasked += o.Unasked
	c.Wrong += o.Wrong
}

// compare compares the database with the ledger. No insert may be in flight.
func (l *activityLedger) compare(ctx context.Context, s activityStore) (activityCount, error) {
	l.mu.Lock()
	told := l.told
	l.mu.Unlock()
	var c activityCount
	times := make(map[uuid]int, len(told)) // how often each id was found
	for _, t := range told {
		times[t.id] = 0
		if t.stored {
			c.Acknowledged++
		} else {
			c.Failed++
		}
	}
	err := s.each(ctx, func(a activity) {
		c.Stored++
		n, asked := times[a.ID]
		switch {
		case !asked:
			c.Unasked++
			return
		case n > 0:
			c.Doubled++
		case !a.same(activityOf(a.ID)):
			c.Wrong++
		}
		times[a.ID]++
	})
	if err != nil {
		return c, fmt.Errorf("read what was inserted: %w", err)
	}
	for _, t := range told {
		if t.stored && times[t.id] == 0 {
			c.Lost++
		}
	}
	return c, nil
}
