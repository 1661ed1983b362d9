package mail

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// Store opens a job store in a temporary folder of the test.
func Store(t *testing.T) *jobs.Store {
	t.Helper()
	server, err := embedded.Start(embedded.Options{Dir: filepath.Join(t.TempDir(), "jobs"), MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	store, err := jobs.Open(context.Background(), conn, jobs.StoreOptions{Durability: server.Durability()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		store.Close(context.Background())
		conn.Close()
		server.Close(context.Background())
	})
	return store
}
