package jobs

import "time"

// KeyID returns the ID of the job with a key (SubmitOptions.Key) in this queue. The
// job need not exist yet.
func (q *queue) KeyID(key string) string { return idOf(q.store.o.Namespace, q.name, key) }

// Remembers returns how long a job of this queue is known after its end, however it
// ended: the shortest time among ResultTTL, DeadTTL and their minimum. A submission
// with the job's key and SubmitOptions.Once joins it for at least that long. A job that
// was dropped is known only for the minimum, three leases and one second.
func (q *queue) Remembers() time.Duration {
	r := record{item: item{Lease: q.o.Lease}}
	return min(r.kept(q.o.ResultTTL), r.kept(q.o.DeadTTL)) // None is negative
}
