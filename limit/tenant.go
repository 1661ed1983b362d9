package limit

import (
	"context"
	"math"
)

// MaxWeight is the greatest weight of a [Tenant].
const MaxWeight = 1 << 20

// A Tenant is one of several users of a limiter that share it fairly: a client, a customer,
// a team. Callers carry it in their context. While callers of several tenants wait for a
// [Concurrency] or an [Adaptive], each tenant gets permits for the same time, in proportion
// to its weight, however many callers it has and however long its calls take. The others
// get time that a tenant does not use. The zero Tenant is that of all callers without one.
type Tenant struct {
	// Name distinguishes the tenant from others of the same group.
	Name string
	// Within names a group of tenants that together have the share of one tenant of weight
	// 1, for example an IPv6 network whose owner can use any of its addresses. Empty: the
	// tenant is in no group.
	Within string
	// Weight is the tenant's share in relation to the others of its group. 0 and less mean
	// 1, and above MaxWeight counts as MaxWeight. While the limiter knows the tenant, which
	// it does while the tenant waits, holds or owes, the weight of its first caller counts.
	Weight int
	// Class stands above tenants: callers of a higher class go first, whatever their tenants
	// have had. It is for a class that the program decides on, by the kind of the call. The
	// [Priority] in a context orders only the callers of one tenant. A Class below Normal
	// counts as Low.
	Class Priority
}

// weight returns the weight that counts.
func (t Tenant) weight() int64 { return int64(max(1, min(t.Weight, MaxWeight))) }

// none reports whether t is the tenant of callers without one.
func (t Tenant) none() bool {
	return t.Name == "" && t.Within == "" && t.Class.class() == Normal.class()
}

// tenantKey has size zero, so that a lookup allocates nothing.
type tenantKey struct{}

// ContextWithTenant returns a copy of ctx whose caller belongs to t, instead of any tenant
// that ctx has. A RateLimiter ignores it.
//
// A tenant must be one that callers cannot choose, such as a verified name or the network
// of a connection. A caller that can make up tenants has a new share with each of them.
func ContextWithTenant(ctx context.Context, t Tenant) context.Context {
	return context.WithValue(ctx, tenantKey{}, t)
}

// TenantOf returns the tenant of ctx, or the zero Tenant. The limiters of this package
// call it only when permits are short.
func TenantOf(ctx context.Context) Tenant {
	t, _ := ctx.Value(tenantKey{}).(Tenant)
	return t
}

// The most tenants without callers and permits that are remembered because they owe, in
// the queue and in a group. A tenant that is forgotten owes nothing.
const (
	mostDebtors      = 1024
	mostGroupDebtors = 16
)

// A tenant is a node of the tree of lines: a tenant with its line, a group, or the root.
// Siblings are served by start-time fair queueing (Goyal, Vin and Cheng, 1996): each has
// the virtual time at which its next call starts, and the earliest is next. The unit of
// virtual time is a nanosecond of one permit for one unit of weight.
type tenant struct {
	parent *tenant // nil: the root
	name   tenantName
	weight int64
	line   classes  // of a tenant
	mean   drain    // how long its permits are held
	left   patience // of its callers

	start   float64 // virtual time of its parent at which its next call starts
	floor   float64 // that time when it last began to wait: what is paid back is no credit from before
	turn    uint64  // orders tenants that start at the same time, by when they began to wait
	waiting int     // callers in its line, or below it
	units   int     // that they request
	holds   int     // units of permits that are charged to it
	bills   int     // such permits, also those that were settled at no units

	now      float64                // virtual time of its children
	last     float64                // the latest start of a child
	children map[tenantName]*tenant // nil without
	turns    ranks[byTurn]          // children with waiting callers
	loads    ranks[byLoad]          // the same
	debtors  ranks[byTurn]          // children that neither wait nor hold, and owe
	weights  int64                  // of the children with waiting callers

	atTurn, atLoad int // its index in turns or debtors, and in loads, of its parent
	owes           bool
}

// A tenantName is the key of a child: a tenant or a group.
type tenantName struct {
	name  string
	group bool
}

type byTurn struct{ *tenant }

func (a byTurn) before(b byTurn) bool {
	return a.start < b.start || a.start == b.start && a.turn < b.turn
}
func (a byTurn) index() *int { return &a.atTurn }

type byLoad struct{ *tenant }

func (a byLoad) before(b byLoad) bool { return a.load(0) > b.load(0) }
func (a byLoad) index() *int          { return &a.atLoad }

// load returns how many units t has, in the queue and in use, for its weight, if it had n
// more.
func (t *tenant) load(n int) float64 { return float64(t.units+t.holds+n) / float64(t.weight) }

// factor returns how much longer the callers of t wait than they would without the other
// tenants, while all of them wait: the sum of all weights, divided by its weight.
func (t *tenant) factor() float64 {
	f := 1.0
	for ; t.parent != nil; t = t.parent {
		all := t.parent.weights
		if t.waiting == 0 {
			all += t.weight
		}
		f *= float64(all) / float64(t.weight)
	}
	return f
}

// root returns the root of the tree of t.
func (t *tenant) root() *tenant {
	for t.parent != nil {
		t = t.parent
	}
	return t
}

// ahead returns how many units of all tenants are served before a caller of t for n units,
// if own units in its line are.
func (t *tenant) ahead(q *lines, own, n int) int {
	class := classCount - 1
	for t.root() != &q.roots[class] {
		class--
		own += q.roots[class+1].units
	}
	others := q.roots[class].units - t.units
	if others == 0 {
		return own
	}
	return own + int(min(float64(others), math.Ceil(float64(own+n)*(t.factor()-1))))
}

// A rank is an element of ranks.
type rank[T any] interface {
	before(T) bool
	index() *int
}

// ranks is a heap whose elements know where they are. The first one is before the others.
type ranks[T rank[T]] []T

func (r *ranks[T]) push(x T) {
	*x.index() = len(*r)
	*r = append(*r, x)
	r.fix(x)
}

func (r *ranks[T]) remove(x T) {
	i, end := *x.index(), len(*r)-1
	last := (*r)[end]
	clear((*r)[end:])
	*r = (*r)[:end]
	if i == end {
		return
	}
	(*r)[i], *last.index() = last, i
	r.fix(last)
}

// fix moves x, whose rank has changed.
func (r *ranks[T]) fix(x T) {
	h, i := *r, *x.index()
	for i > 0 && x.before(h[(i-1)/2]) {
		h[i] = h[(i-1)/2]
		*h[i].index() = i
		i = (i - 1) / 2
	}
	for {
		next := 2*i + 1
		if next+1 < len(h) && h[next+1].before(h[next]) {
			next++
		}
		if next >= len(h) || !h[next].before(x) {
			break
		}
		h[i] = h[next]
		*h[i].index() = i
		i = next
	}
	h[i], *x.index() = x, i
}
