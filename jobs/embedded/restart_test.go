package embedded_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// openStore opens the jobs of a server, as a program in its process does.
func openStore(t *testing.T, s *embedded.Server, maxBytes int64) *jobs.Store {
	t.Helper()
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	store, err := jobs.Open(t.Context(), nc, jobs.StoreOptions{Durability: jobs.DurabilityDisk, MaxBytes: maxBytes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close(context.Background()) }) // a failure no longer matters
	return store
}

// stopped creates a store, lets do use it, and stops its server.
func stopped(t *testing.T, do func(*embedded.Server)) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "jobs")
	s := start(t, embedded.Options{Dir: folder})
	do(s)
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return folder
}

func theFile(t *testing.T, folder, pattern string) string {
	t.Helper()
	return (&ward{dir: filepath.Dir(folder)}).files(t, pattern)[0]
}

// A ledger that is missing, or ends early, says nothing about the jobs after its end. The
// mark beside the folder knows that there were some.
func TestJ1_ALedgerIsLostTogetherWithABlock(t *testing.T) {
	const ledger = "weir.ledger/WEIR_JOBS_1_default"
	for name, do := range map[string]func(*testing.T, string){
		"removed":         remove,
		"cut to its head": func(t *testing.T, path string) { rewrite(t, path, func(text []byte) []byte { return text[:9] }) },
		"zeros after its head": func(t *testing.T, path string) {
			rewrite(t, path, func(text []byte) []byte { clear(text[9:]); return text })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWard(t)
			do(t, w.files(t, ledger)[0])
			remove(t, w.files(t, blockFiles)[0])
			if got := w.open(t, name); got.err == nil {
				t.Error("Start = nil; want an error, because jobs are missing")
			}
		})
	}
}

func rewrite(t *testing.T, path string, edit func([]byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, edit(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A mark with a wrong bit is no mark: it must not invent a missing stream, or a newer
// version of weir.
func TestJ1_AWrongBitInTheMark(t *testing.T) {
	w := newWard(t)
	path := w.folder() + ".mark"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		bit := byte(1) << rand.N(8)
		text[i] ^= bit
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := embedded.Repair(w.folder(), embedded.RepairOptions{DryRun: true})
		if err != nil || r.Damaged() {
			t.Errorf("with bit %b of byte %d flipped, Repair = %+v, %v; want no damage", bit, i, r, err)
		}
		text[i] ^= bit
	}
}

// Other programs leave files, too.
func TestJ1_ForeignFilesAmongTheConsumers(t *testing.T) {
	for _, name := range []string{".DS_Store", "core"} {
		w := newWard(t)
		if err := os.WriteFile(filepath.Join(w.files(t, streamFiles+"/obs")[0], name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := w.open(t, name); got.err != nil {
			t.Errorf("with a file %s, Start = %v; want nil", name, got.err)
		}
	}
}

// The server writes the description of a stream and then its checksum. A process that is
// killed in between has lost nothing.
func TestJ1_KilledWhileTheBoundOfTheStoreChanges(t *testing.T) {
	folder := stopped(t, func(s *embedded.Server) {
		openStore(t, s, 64<<20)
	})
	before, err := os.ReadFile(theFile(t, folder, streamFiles+"/meta.sum"))
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, embedded.Options{Dir: folder})
	q, err := jobs.NewQueue[string, string](t.Context(), openStore(t, s, 128<<20), "q", jobs.QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Submit(t.Context(), "in", jobs.SubmitOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	sum := theFile(t, folder, streamFiles+"/meta.sum")
	if err := os.WriteFile(sum, before, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = embedded.Start(embedded.Options{Dir: folder})
	if err != nil {
		t.Fatalf("Start = %v; want nil", err)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// The server keeps pauses and leases in the description of a consumer.
func TestJ28_APauseSurvivesADamagedConsumer(t *testing.T) {
	for name, do := range map[string]func(*testing.T, string){"flipped": flip(0.5), "removed": remove} {
		t.Run(name, func(t *testing.T) {
			const lease = 90 * jobs.DefaultLease / 10
			folder := stopped(t, func(s *embedded.Server) {
				store := openStore(t, s, wardBytes)
				if _, err := jobs.NewQueue[string, string](t.Context(), store, "q", jobs.QueueOptions{Lease: lease}); err != nil {
					t.Fatal(err)
				}
				if err := store.Pause(t.Context(), "q"); err != nil {
					t.Fatal(err)
				}
			})
			do(t, theFile(t, folder, streamFiles+"/obs/q/meta.inf"))
			store := openStore(t, start(t, embedded.Options{Dir: folder}), wardBytes)
			q, err := jobs.NewQueue[string, string](t.Context(), store, "q", jobs.QueueOptions{Lease: lease})
			if err != nil {
				t.Fatal(err)
			}
			if got := q.Lease(); got != lease {
				t.Errorf("Lease = %v; want %v", got, lease)
			}
			all, err := store.Queues(t.Context())
			if err != nil || len(all) != 1 || !all[0].Paused {
				t.Errorf("Queues = %+v, %v; want q, paused", all, err)
			}
		})
	}
}

// A process can be killed between the outcome of a job and the acknowledgement of its
// item. When it is started again, the outcome may have expired: the item must not run as
// a new job.
func TestJ1_AFinishedJobIsNotHandedOutAgain(t *testing.T) {
	live, left := filepath.Join(t.TempDir(), "jobs"), filepath.Join(t.TempDir(), "jobs")
	store := openStore(t, start(t, embedded.Options{Dir: live}), wardBytes)
	q, err := jobs.NewQueue[string, string](t.Context(), store, "once", jobs.QueueOptions{MaxAttempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	copied := make(chan struct{})
	worker, err := q.Work(func(context.Context, *jobs.Job[string]) (string, error) { return "out", nil }, jobs.WorkerOptions{
		Observer: ended(func() { // before the acknowledgement
			for _, part := range []string{"weir.ledger", "jetstream"} {
				copyTree(t, filepath.Join(live, part), filepath.Join(left, part))
			}
			close(copied)
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Close(context.Background()) })
	if _, err := q.Submit(t.Context(), "in", jobs.SubmitOptions{}); err != nil {
		t.Fatal(err)
	}
	<-copied
	all, err := openStore(t, start(t, embedded.Options{Dir: left}), wardBytes).Queues(t.Context())
	if err != nil || len(all) != 1 || all[0].Waiting+all[0].Taken != 0 {
		t.Errorf("Queues = %+v, %v; want one with no job to run", all, err)
	}
}

// ended is called when an attempt ends.
type ended func()

func (f ended) AttemptStart(ctx context.Context, _ jobs.AttemptInfo) context.Context { return ctx }
func (f ended) AttemptEnd(context.Context, jobs.AttemptInfo, jobs.AttemptEnd)        { f() }
func (f ended) Event(context.Context, jobs.Event)                                    {}
