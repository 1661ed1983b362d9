package gateway

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/weir/gateway/internal/route"
)

// Invalidate is [weirhttp.Cache.Invalidate] for a URL as clients write it: it also removes
// the responses that are stored under what the query rules of its routes make of it.
func (g *Gateway) Invalidate(ctx context.Context, scheme, host, target string) (int, error) {
	return g.purge(host, target, func(target string) (int, error) { return g.cache.Invalidate(ctx, scheme, host, target) })
}

// Expire is [weirhttp.Cache.Expire], as Invalidate is for its counterpart.
func (g *Gateway) Expire(ctx context.Context, scheme, host, target string) (int, error) {
	return g.purge(host, target, func(target string) (int, error) { return g.cache.Expire(ctx, scheme, host, target) })
}

// purge calls each with all targets under which responses to target may be stored.
func (g *Gateway) purge(host, target string, each func(target string) (int, error)) (int, error) {
	all := 0
	var errs []error
	for _, t := range g.storedTargets(host, target) {
		n, err := each(t)
		all += n
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

// storedTargets is weirhttp.Options.StoredTargets for all routes: the target itself, and
// what the query rules make of it. Requests of different methods for one URL may match
// different routes.
func (g *Gateway) storedTargets(host, target string) []string {
	targets := []string{target}
	s := g.now.Load()
	if s == nil || len(s.reading) == 0 {
		return targets
	}
	path, _, asks := strings.Cut(target, "?")
	if !asks {
		return targets
	}
	for _, method := range s.reading {
		if i := s.index.Find(host, path, method); i != route.None {
			if t := s.handlers[i].http.Target(target); !slices.Contains(targets, t) {
				targets = append(targets, t)
			}
		}
	}
	return targets
}

// reading returns the methods whose responses may be stored, or none if no route has query
// rules.
func (c Config) reading() []string {
	methods, rules := []string{http.MethodGet, http.MethodHead, "QUERY", http.MethodPost}, false
	for _, r := range c.Routes {
		q := r.Query
		rules = rules || q.Sort || len(q.Keep)+len(q.Drop) > 0
		for _, read := range r.Reads {
			methods = append(methods, read.Methods...)
		}
	}
	if !rules {
		return nil
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}
