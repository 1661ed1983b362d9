package scenarios

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/batch"
	"github.com/weir-go/weir/lab/scenario"
)

// An activityPlan describes one variant of the activity service.
type activityPlan struct {
	Cassandra bool // otherwise PostgreSQL
	Address   string
	Flush     bool // for PostgreSQL; Cassandra is started with its setting
	Batch     bool // weir batches concurrent inserts and reads
	Archived  int  // rows in the archive
}

func (p activityPlan) open(ctx context.Context) (activityStore, error) {
	if p.Cassandra {
		return openCassandra(p.Address)
	}
	return openPostgres(ctx, p.Address, p.Flush)
}

const (
	// batchesAtOnce is the number of batch statements that run at once.
	batchesAtOnce = 2
	// postgresBatch and cassandraBatch bound the rows in a batch. Cassandra refuses a
	// batch of more than 50 KiB.
	postgresBatch, cassandraBatch = 256, 64
)

// batchSize is the largest number of rows in a statement.
func (p activityPlan) batchSize() int {
	if p.Cassandra {
		return cassandraBatch
	}
	return postgresBatch
}

// activityService inserts an activity for each request to /insert and reads
// one for each to /read. Its control has /compare and /drive.
func activityService(ctx context.Context, o scenario.Options) (*scenario.Service, error) {
	if o.Variant == ceiling {
		return &scenario.Service{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			answerActivity(w, activityOf(newActivityID()))
		})}, nil
	}
	var p activityPlan
	if err := o.Decode(&p); err != nil {
		return nil, err
	}
	s, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	a := &activities{store: s, archived: p.Archived}
	if p.Batch {
		a.insert, a.read, err = gather(s, &a.meter, p.batchSize())
	} else {
		a.insert, a.read = singly(s, &a.meter)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/insert", a.handleInsert)
	mux.HandleFunc("/read", a.handleRead)
	control := http.NewServeMux()
	control.HandleFunc("/compare", a.handleCompare)
	control.HandleFunc("/drive", a.handleDrive)
	return &scenario.Service{Handler: mux, Control: control, Meter: &a.meter, Reset: a.reset, Close: s.close}, nil
}

// activities is the service.
type activities struct {
	store    activityStore
	archived int
	insert   insertFunc
	read     readFunc

	meter  scenario.Meter // of statements
	ledger activityLedger

	// inserts is read-locked by each insert until the ledger has recorded it, and
	// locked by code that requires that no insert is in flight. It is held across the
	// statement on purpose.
	inserts sync.RWMutex
}

type (
	insertFunc func(context.Context, activity) error
	readFunc   func(context.Context, uuid) (activity, error)
)

// singly sends one statement per insert and per read.
func singly(s activityStore, meter *scenario.Meter) (insertFunc, readFunc) {
	return func(ctx context.Context, v activity) error {
			defer meter.Begin()()
			return s.insert(ctx, v)
		}, func(ctx context.Context, id uuid) (activity, error) {
			defer meter.Begin()()
			return s.find(ctx, id)
		}
}

// gather batches concurrent inserts and reads into statements of at most most rows.
func gather(s activityStore, meter *scenario.Meter, most int) (insertFunc, readFunc, error) {
	writes, err := batch.New(func(ctx context.Context, all []activity) ([]struct{}, error) {
		defer meter.Begin()()
		return nil, s.insertAll(ctx, all)
	}, batch.Options{MaxSize: most, MaxParallel: batchesAtOnce})
	if err != nil {
		return nil, nil, err
	}
	insert := func(ctx context.Context, v activity) error {
		_, err := writes.Do(ctx, v)
		return err
	}
	// Without a TTL nothing is stored: this is batching, not a cache.
	reads, err := weir.NewFrom(weir.Source[uuid, activity]{LoadMany: func(ctx context.Context, ids []uuid) (map[uuid]activity, error) {
		defer meter.Begin()()
		return s.findAll(ctx, ids)
	}}, weir.Options{Batch: weir.Batching{MaxSize: most, MaxParallel: batchesAtOnce}})
	if err != nil {
		return nil, nil, err
	}
	return insert, reads.Get, nil
}

// insertNew inserts a new activity and records the outcome.
func (a *activities) insertNew(ctx context.Context) (activity, error) {
	a.inserts.RLock()
	defer a.inserts.RUnlock()
	v := activityOf(newActivityID())
	err := a.insert(ctx, v)
	a.ledger.tell(v.ID, err)
	return v, err
}

// handleInsert inserts. A client that hangs up does not stop an insert that has
// begun, so the outcome of each insert is known.
func (a *activities) handleInsert(w http.ResponseWriter, r *http.Request) {
	v, err := a.insertNew(context.WithoutCancel(r.Context()))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answerActivity(w, v)
}

// answerActivity writes the document as the response.
func answerActivity(w http.ResponseWriter, v activity) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, v.Document) //nolint:errcheck // the client is gone
}

func (a *activities) handleRead(w http.ResponseWriter, r *http.Request) {
	id := archivedID(rand.IntN(a.archived))
	v, err := a.read(r.Context(), id)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case !v.same(activityOf(id)):
		http.Error(w, "this is a different activity", http.StatusInternalServerError)
	default:
		answerActivity(w, v)
	}
}

// reset empties the table and the ledger.
func (a *activities) reset(ctx context.Context) error {
	a.inserts.Lock()
	defer a.inserts.Unlock()
	a.ledger.clear()
	return a.store.clear(ctx)
}

// handleCompare compares the table with the ledger, after the inserts of clients that
// hung up have finished.
func (a *activities) handleCompare(w http.ResponseWriter, r *http.Request) {
	a.inserts.Lock()
	defer a.inserts.Unlock()
	count, err := a.ledger.compare(r.Context(), a.store)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	json.NewEncoder(w).Encode(count) //nolint:errcheck // the lab is gone
}
