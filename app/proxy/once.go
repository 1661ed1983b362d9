package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/once"
)

// A keyStore has the Idempotency-Keys of the routes. nil means that there is none.
type keyStore struct {
	store  interface{ Close(context.Context) error }
	claims *once.Claims
}

// sharedKeys returns the options of a store in Redis, nil without one.
func sharedKeys(s *config.SharedIdempotency) *weirredis.ClaimsOptions {
	if s == nil {
		return nil
	}
	return &weirredis.ClaimsOptions{Namespace: s.Namespace, Secret: s.Secret, Bytes: s.Bytes, Keys: s.Keys, Replicas: s.Replicas}
}

// openKeys opens the folder with the Idempotency-Keys, if s has one, and sets the claims of
// the gateway.
func (p *proxy) openKeys(s *Settings) error {
	if s.SharedKeys != nil && p.fleet.tier != nil {
		store, err := p.fleet.tier.Claims(context.Background(), *s.SharedKeys)
		if err != nil {
			return fmt.Errorf("idempotency.fleet: %w", err)
		}
		p.keys = &keyStore{store, once.NewClaims(store)}
		s.Gateway.Claims = p.keys.claims
		p.logger.Info("idempotency keys are in the fleet's Redis", "replicas", s.SharedKeys.Replicas)
		return nil
	}
	if s.Keys.Folder == "" {
		return nil
	}
	folder, err := once.OpenFolder(s.Keys)
	switch {
	case errors.Is(err, once.ErrInUse):
		return fmt.Errorf("idempotency.dir: %s is in use by another process; each proxy needs its own folder", s.Keys.Folder)
	case err != nil:
		return fmt.Errorf("idempotency.dir: %w", err)
	}
	p.keys = &keyStore{folder, once.NewClaims(folder)}
	s.Gateway.Claims = p.keys.claims
	if u := folder.Usage(); u.Keys > 0 {
		p.logger.Info("the folder of idempotency keys is open", "folder", s.Keys.Folder, "keys", u.Keys, "bytes", u.Bytes)
		if n := p.keys.claims.Stats().Unknown; n > 0 {
			p.logger.Warn("calls of earlier runs have an unknown outcome; weir idempotency list shows them", "calls", n)
		}
	}
	return nil
}

// drain lets no more calls begin, and waits until ctx ends for those that run, which no
// client may wait for.
func (k *keyStore) drain(ctx context.Context) error {
	if k == nil {
		return nil
	}
	return k.claims.Close(ctx)
}

// close closes the store. Calls that still run have an unknown outcome after that.
func (k *keyStore) close() {
	if k != nil {
		ctx, cancel := context.WithTimeout(context.Background(), cutGrace)
		defer cancel()
		_ = k.store.Close(ctx) // all that was acknowledged is durable
	}
}

// fixedKeys returns what a reload cannot change.
func fixedKeys(i *config.Idempotency) string {
	if i == nil {
		return ""
	}
	text, err := json.Marshal(i) // with the name of the file, not its contents
	if err != nil {
		return err.Error() // nothing in it can fail to marshal
	}
	return string(text)
}

// claimed returns the claims, nil if there are none.
func (k *keyStore) claimed() *once.Claims {
	if k == nil {
		return nil
	}
	return k.claims
}
