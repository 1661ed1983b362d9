package once_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/weir-go/weir/once"
)

// A call for a key runs once. Every later request learns its outcome.
func Example() {
	dir, err := os.MkdirTemp("", "keys")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	folder, err := once.OpenFolder(once.FolderOptions{Folder: dir})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer folder.Close(ctx)
	claims := once.NewClaims(folder)

	pay := func(key string) {
		e, err := claims.Begin(ctx, once.Call{
			ID: once.Sum("pay", key), Fingerprint: once.Sum("5 EUR"), Credentials: once.Sum("ann"), TTL: time.Hour,
		})
		switch {
		case err != nil:
			fmt.Println(err)
		case e.Leads:
			if err := e.Run.Claim(ctx); err == nil { // durable: now it can be sent
				_ = e.Run.Answer(once.Record{Status: 201})
			}
			e.Run.End(nil)
			fmt.Println(key, "ran")
		case e.Run == nil:
			fmt.Println(key, e.Record.State, e.Record.Status)
		}
	}
	pay("a")
	pay("a")
	pay("b")

	// Output:
	// a ran
	// a answered 201
	// b ran
}
