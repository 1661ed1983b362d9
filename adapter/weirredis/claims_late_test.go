package weirredis

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/once"
)

// A claim can reach Redis after the command that removes it, over another connection. It is
// removed all the same: others would wait for it while this gateway is alive.
func TestH45_AClaimThatArrivesLateIsFree(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier, err := New(t.Context(), Options{Addresses: []string{s.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tier.Close(context.Background()) }()
	store, err := tier.Claims(t.Context(), ClaimsOptions{Secret: []byte("a secret of all gateways")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close(context.Background()) }()
	id, late := once.Sum("a"), version()
	claim := once.Record{State: once.Claimed, Expires: time.Now().Add(time.Hour), Principal: once.Sum("p")}
	store.abandon(id, &orphan{version: late, free: true, record: claim})
	if got, err := store.Get(t.Context(), id); err != nil || got.Version != 0 {
		t.Fatalf("Get = %v, %v; want no record", got.State, err)
	}
	if _, err := store.write(t.Context(), id, claim, 0, late); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Get(t.Context(), id); err != nil || got.Version != 0 {
		t.Errorf("Get after the late claim = %v, %v; want no record", got.State, err)
	}
	store.mu.Lock()
	defer store.mu.Unlock()
	if n := len(store.orphans); n != 0 { // the late claim was found and removed
		t.Errorf("%d orphans are left; want 0", n)
	}
}
