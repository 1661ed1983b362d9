package limit

import (
	"iter"
	"time"
)

// lines is the queue of a pool: a line for each tenant. The order of the tenants is by the
// time for which they have had permits, see tenant; in a line it is that of classes.
//
// There is a tenant for each that has waiting callers, permits that it waited for, or
// owes, which is bounded by mostDebtors. Permits that were free are not charged: to learn
// whose they are, their callers' contexts would have to be read.
//
// The zero lines is empty and ready to use. It has no lock.
type lines struct {
	n     int // waiters
	units int // requested by all waiters

	turns uint64        // how often a tenant has begun to wait
	free  time.Duration // when a permit was last free and no caller waited

	roots [classCount]tenant // by Tenant.Class
	none  tenant             // of callers without a tenant; it is never removed
	spare *tenant            // one that was removed, for the next
	bills ranks[*bill]       // those of permits in use, the next that is due first
}

// A bill is the cost of a permit for its tenant: the time for which it is held, for each unit.
// It is charged in advance, first for as long as such calls take, and then, while it is
// held, for as long again as it was charged for. Time in which a permit was free and no
// caller waited is not charged, see rebase.
type bill struct {
	tenant *tenant       // nil: it is not charged
	since  time.Duration // from when it is charged
	units  int
	paid   time.Duration // for each unit
	at     int           // index in lines.bills
}

func (b *bill) due() time.Duration           { return b.since + b.paid }
func (b *bill) before(c *bill) bool          { return b.due() < c.due() }
func (b *bill) index() *int                  { return &b.at }
func (b *bill) cost(d time.Duration) float64 { return float64(d) * float64(b.units) }

// leastPaid is the least time that is charged in advance, and the first if it is unknown
// how long calls take.
const leastPaid = time.Millisecond

// of returns the tenant of a caller. If the caller does not queue, drop must be called.
func (q *lines) of(t Tenant) *tenant {
	if q.none.parent == nil {
		q.none.parent, q.none.weight = &q.roots[Normal.class()], 1
	}
	if t.none() {
		return &q.none
	}
	in := &q.roots[t.Class.class()]
	if t.Within != "" {
		in = q.child(in, tenantName{t.Within, true}, 1)
	}
	return q.child(in, tenantName{t.Name, false}, t.weight())
}

func (q *lines) child(in *tenant, name tenantName, weight int64) *tenant {
	if t := in.children[name]; t != nil {
		return t
	}
	if in.children == nil {
		in.children = make(map[tenantName]*tenant)
	}
	t := q.spare
	if q.spare = nil; t == nil {
		t = new(tenant)
	}
	t.parent, t.name, t.weight = in, name, weight
	in.children[name] = t
	return t
}

// drop removes t, and then its group, if it has no waiting callers and no permits. If it
// owes, it becomes a debtor, and the least of the debtors is removed if there are too many.
func (q *lines) drop(t *tenant) {
	for t != &q.none && t.parent != nil && t.waiting == 0 && t.bills == 0 && !t.owes {
		in := t.parent
		if t.start <= in.now {
			q.clear(t) // they owe only among themselves
			q.remove(t)
		} else {
			t.owes = true
			in.debtors.push(byTurn{t})
			most := mostDebtors
			if in.parent != nil {
				most = mostGroupDebtors
			}
			if len(in.debtors) > most {
				q.forget(in.debtors[0].tenant)
			}
		}
		t = in
	}
}

// forget removes t, a debtor.
func (q *lines) forget(t *tenant) {
	t.parent.debtors.remove(byTurn{t})
	t.owes = false
	q.clear(t)
	q.remove(t)
}

// clear forgets all debtors of t.
func (q *lines) clear(t *tenant) {
	for len(t.debtors) > 0 {
		q.forget(t.debtors[len(t.debtors)-1].tenant)
	}
}

func (q *lines) remove(t *tenant) {
	delete(t.parent.children, t.name)
	*t = tenant{}
	q.spare = t
}

// idle ends all debts, because a permit is free: no tenant takes anything from another.
func (q *lines) idle(now time.Duration) {
	q.free = now
	for i := range q.roots {
		if root := &q.roots[i]; root.children != nil {
			root.now = max(root.now, root.last)
			q.clear(root)
		}
	}
}

// push puts w at the end of its class in the line of t.
func (q *lines) push(w *waiter, t *tenant, class int) {
	w.tenant = t
	t.line.push(w, class)
	q.n++
	q.units += w.units
	for ; t.parent != nil; t = t.parent {
		in := t.parent
		if t.owes {
			in.debtors.remove(byTurn{t})
			t.owes = false
		}
		t.waiting++
		t.units += w.units
		if t.waiting > 1 {
			in.loads.fix(byLoad{t})
			continue
		}
		t.start, t.floor = max(t.start, in.now), in.now
		q.turns++
		t.turn = q.turns
		in.weights += t.weight
		in.turns.push(byTurn{t})
		in.loads.push(byLoad{t})
	}
	t.units += w.units // the root
}

// pull removes w from any position, and reports whether it was in the queue. If it leaves
// a tenant with no caller, drop must be called.
func (q *lines) pull(w *waiter) bool {
	t := w.tenant
	if !w.queued || !t.line.remove(w) {
		return false
	}
	q.n--
	q.units -= w.units
	for ; t.parent != nil; t = t.parent {
		in := t.parent
		t.waiting--
		t.units -= w.units
		if t.waiting > 0 {
			in.loads.fix(byLoad{t})
			continue
		}
		in.weights -= t.weight
		in.turns.remove(byTurn{t})
		in.loads.remove(byLoad{t})
	}
	t.units -= w.units // the root
	return true
}

// leave is pull for a waiter that gets no permit.
func (q *lines) leave(w *waiter) bool {
	if !q.pull(w) {
		return false
	}
	q.drop(w.tenant)
	return true
}

// move puts w, which is in the queue, into another class of its line.
func (q *lines) move(w *waiter, class int) { w.tenant.line.move(w, class) }

// next returns the tenant whose turn it is. The queue must not be empty.
func (q *lines) next() *tenant {
	t := &q.roots[classCount-1]
	for i := classCount - 2; len(t.turns) == 0; i-- {
		t = &q.roots[i]
	}
	for len(t.turns) > 0 {
		t = t.turns[0].tenant
	}
	return t
}

// admit removes w, whose turn it is, and charges its tenant for a permit from now on.
func (q *lines) admit(w *waiter, now time.Duration, mean drain) *bill {
	t := w.tenant
	if t == &q.none && len(t.parent.children) == 0 { // there is one tenant
		q.pull(w)
		return nil
	}
	if t.mean.count > 0 {
		mean = t.mean
	}
	b := &w.bill
	*b = bill{tenant: t, since: now, units: w.units, paid: max(leastPaid, nanoseconds(mean.held))}
	for n := t; n.parent != nil; n = n.parent {
		in := n.parent
		in.now = max(in.now, n.start) // n.start is earlier if time has passed since n began to wait
		n.holds += b.units
		n.bills++
		n.charge(b.cost(b.paid))
	}
	q.pull(w)
	q.bills.push(b)
	q.passed(t)
	return b
}

// passed forgets the debtors that owe nothing more, since virtual time has passed above t.
func (q *lines) passed(t *tenant) {
	for n := t.parent; n != nil; n = n.parent {
		for len(n.debtors) > 0 && n.debtors[0].start <= n.now {
			q.forget(n.debtors[0].tenant)
		}
	}
}

// charge moves the start of t on, by a cost that is negative if it is paid back.
func (t *tenant) charge(cost float64) {
	in := t.parent
	t.start = max(t.start+cost/float64(t.weight), t.floor)
	in.last = max(in.last, t.start)
	switch {
	case t.waiting > 0:
		in.turns.fix(byTurn{t})
		in.loads.fix(byLoad{t})
	case t.owes:
		in.debtors.fix(byTurn{t})
	}
}

// pay charges the permits that have been held for longer than was charged for them.
func (q *lines) pay(now time.Duration) {
	for len(q.bills) > 0 && q.bills[0].due() < now {
		b := q.bills[0]
		if q.rebase(b) {
			q.bills.fix(b)
			continue
		}
		more := b.paid
		b.paid += more
		q.bills.fix(b)
		for t := b.tenant; t.parent != nil; t = t.parent {
			t.charge(b.cost(more))
		}
	}
}

// rebase lets b begin when a permit was last free and no caller waited, and reports whether
// that is later than it did. The charge until then is no debt: see idle.
func (q *lines) rebase(b *bill) bool {
	if b.since >= q.free {
		return false
	}
	b.since, b.paid = q.free, max(leastPaid, b.due()-q.free)
	return true
}

// settle ends a bill at now: the permit was held for d. A permit that was not used costs
// nothing, and d is not measured.
//
// Virtual time passes as it would if all tenants that wait were served at once: by the cost,
// divided by the sum of their weights. It would otherwise stand still while new tenants
// come, and one that owes would wait for the last of them. The 1 keeps it behind the
// tenants that are served.
func (q *lines) settle(b *bill, now, d time.Duration, used bool) {
	t := b.tenant
	q.bills.remove(b)
	cost := 0.0
	if used {
		t.mean.observe(d, 1)
	}
	q.rebase(b)
	if used {
		cost = b.cost(max(0, now-b.since))
	}
	for n := t; n.parent != nil; n = n.parent {
		in := n.parent
		n.holds -= b.units
		n.bills--
		n.charge(cost - b.cost(b.paid))
		weights := in.weights + 1
		if n.waiting == 0 {
			weights += n.weight
		}
		in.now = max(in.now, min(in.last, in.now+cost/float64(weights)))
	}
	q.passed(t)
	b.tenant = nil
	q.drop(t)
}

// resize changes the units of a bill, from when its permit was issued.
func (q *lines) resize(b *bill, units int) {
	if q.rebase(b) {
		q.bills.fix(b)
	}
	more := units - b.units
	b.units = units
	for t := b.tenant; t.parent != nil; t = t.parent {
		t.holds += more
		t.charge(float64(b.paid) * float64(more))
	}
}

// over reports whether t, with n units more, has more for its weight than the tenants that
// wait, in its group or at a level above. Debts do not count, because they are of the past.
func (q *lines) over(t *tenant, n int) bool {
	for ; t.parent != nil; t = t.parent {
		in := t.parent
		weights, units := in.weights, in.units+n
		if t.waiting == 0 {
			weights += t.weight
		}
		if weights > t.weight && float64(t.units+n)*float64(weights) > float64(units)*float64(t.weight) {
			return true
		}
	}
	return false
}

// heaviest returns the tenant that has the most for its weight, in the group that has the
// most, if the units of own and n more are not more: in the lowest class up to its own. Otherwise it returns own: its line
// must make room.
func (q *lines) heaviest(own *tenant, n int) *tenant {
	t := own.root()
	for i := 0; &q.roots[i] != t; i++ {
		if len(q.roots[i].loads) > 0 {
			t = &q.roots[i]
			break
		}
	}
	for len(t.loads) > 0 {
		most := t.loads[0].tenant
		// own, or its group, if that is a child of t
		mine := own
		for mine != nil && mine.parent != t {
			mine = mine.parent
		}
		if mine != nil && (mine == most || most.load(0) <= mine.load(n)) {
			if mine == own {
				return own
			}
			most = mine
		}
		t = most
	}
	if t.parent == nil || t.waiting == 0 {
		return own
	}
	return t
}

// all yields the waiters. None may be removed or added meanwhile but the one that was
// yielded last.
func (q *lines) all() iter.Seq[*waiter] {
	return func(yield func(*waiter) bool) {
		for _, t := range q.tenants() {
			for i := range t.line.of {
				for w := t.line.of[i].head; w != nil; {
					next := w.next
					if !yield(w) {
						return
					}
					w = next
				}
			}
		}
	}
}

// tenants returns the tenants with waiting callers.
func (q *lines) tenants() (all []*tenant) {
	for i := range q.roots {
		all = q.roots[i].appendWaiting(all)
	}
	return all
}

// appendWaiting appends the tenants below t with waiting callers.
func (t *tenant) appendWaiting(to []*tenant) []*tenant {
	for _, c := range t.turns {
		if len(c.turns) == 0 {
			to = append(to, c.tenant)
		}
		to = c.appendWaiting(to)
	}
	return to
}
