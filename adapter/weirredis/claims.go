package weirredis

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/option"
)

// ClaimsOptions configure a [ClaimStore].
type ClaimsOptions struct {
	// Namespace separates stores that share an engine and a Prefix.
	Namespace string
	// Secret seals what is stored: without it, no reader of the engine learns a response, or which
	// key or body a record belongs to. All gateways of a Namespace need the same one, of at
	// least 16 bytes. Required.
	Secret []byte
	// Bytes bounds the records, with what claims reserve for their responses, and Keys their
	// number, in all gateways together. 0 means once.DefaultBytes and once.DefaultKeys; at
	// least 16 MiB and 4 keys, at most 1 TiB and 100,000,000 keys.
	Bytes int64
	Keys  int
	// Replicas is how many replicas must confirm a write before it counts (WAIT). 0 means
	// none: a failover can then lose the last writes. At most 16.
	Replicas int
	// Alive is for how long others believe that a gateway is alive after its last sign of life.
	// After that its claims are unknown. 0 means DefaultAlive, from 2 s to 5 min.
	Alive time.Duration
}

// DefaultAlive is the default of ClaimsOptions.Alive.
const DefaultAlive = 15 * time.Second

func (o ClaimsOptions) validate() error {
	f := option.Faults{Package: "weirredis", Prefix: "ClaimsOptions."}
	f.Check(len(o.Namespace) <= fleet.MaxName, "Namespace", len(o.Namespace), fmt.Sprintf("at most %d bytes", fleet.MaxName))
	f.Check(len(o.Secret) >= 16, "Secret", len(o.Secret), "at least 16 bytes")
	f.Check(o.Bytes == 0 || o.Bytes >= 16<<20 && o.Bytes <= 1<<40, "Bytes", o.Bytes, "0, or from 16 MiB to 1 TiB")
	f.Check(o.Keys == 0 || o.Keys >= 4 && o.Keys <= 100_000_000, "Keys", o.Keys, "0, or from 4 to 100,000,000")
	f.Check(o.Replicas >= 0 && o.Replicas <= 16, "Replicas", o.Replicas, "from 0 to 16")
	f.Check(o.Alive == 0 || o.Alive >= 2*time.Second && o.Alive <= 5*time.Minute, "Alive", o.Alive, "0, or from 2s to 5m")
	return f.Err()
}

// Errors of a ClaimStore. They match once.ErrStore.
var (
	// ErrLost means that the engine has lost writes that it had confirmed: nothing tells any
	// more which calls have run.
	ErrLost = fmt.Errorf("%w: Redis has lost records that it had confirmed, so that calls could run again", once.ErrStore)
	// ErrSecret means that another gateway of the Namespace has another Secret.
	ErrSecret = fmt.Errorf("%w: another gateway uses another secret for this namespace", once.ErrStore)
	// ErrPolicy means that the engine can evict claims.
	ErrPolicy = fmt.Errorf("%w: maxmemory-policy of Redis is an allkeys policy, which evicts claims; use noeviction or a volatile policy", once.ErrStore)
)

// A ClaimStore is a [once.Store] for several gateways, in Redis. See decision 0153 for what
// Redis can lose, and what happens then. It is safe for concurrent use. Close it before its
// Tier.
type ClaimStore struct {
	e       *engine
	o       ClaimsOptions
	base    string
	own     string
	names   []byte // the key of the names of records
	seal    cipher.AEAD
	stop    context.CancelFunc
	stopped chan struct{}

	mu        sync.Mutex
	mark      string                  // of the Secret and the contents of the engine, "" until it was reached; guarded by mu
	confirmed uint64                  // writes; guarded by mu
	usage     once.Usage              // as of the last reply; guarded by mu
	orphans   map[once.Digest]*orphan // guarded by mu
}

var _ once.Store = (*ClaimStore)(nil)

// An orphan is a record of this gateway whose last write has failed, so that it may be stored
// or not. Its call has ended.
type orphan struct {
	version uint64 // of the claim
	free    bool   // it was not sent: the claim is removed. Otherwise it becomes unknown
	record  once.Record
	until   time.Time // the write can still arrive
}

// maxOrphans bounds the orphans: others become unknown only when this gateway has ended.
const maxOrphans = 10_000

// Claims opens the store of a Namespace. It fails if the gateways of the Namespace have another
// Secret, or if the engine evicts keys without a time to live. An engine that cannot be reached
// is no error: the operations of the store fail until it can be.
func (t *Tier) Claims(ctx context.Context, o ClaimsOptions) (*ClaimStore, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.Bytes, o.Keys = cmp.Or(o.Bytes, once.DefaultBytes), cmp.Or(o.Keys, once.DefaultKeys)
	o.Alive = cmp.Or(o.Alive, DefaultAlive)
	s := &ClaimStore{
		e: t.engine, o: o, base: t.engine.o.Prefix + ":o:" + namespaceTag(o.Namespace) + ":", own: rand.Text(),
		names: derived(o.Secret, "names"), stopped: make(chan struct{}), orphans: map[once.Digest]*orphan{},
	}
	s.usage.MaxKeys, s.usage.MaxBytes = o.Keys, o.Bytes
	block, err := aes.NewCipher(derived(o.Secret, "records"))
	if err != nil {
		return nil, err
	}
	if s.seal, err = cipher.NewGCM(block); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); errors.Is(err, ErrSecret) || errors.Is(err, ErrPolicy) {
		return nil, err
	}
	life, stop := context.WithCancel(context.Background())
	s.stop = stop
	go s.live(life)
	return s, nil
}

// ready checks the engine before the first operation.
func (s *ClaimStore) ready(ctx context.Context) error {
	s.mu.Lock()
	known := s.mark != ""
	s.mu.Unlock()
	if known {
		return nil
	}
	return s.check(ctx)
}

// derived returns a key for one purpose.
func derived(secret []byte, purpose string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("weir once " + purpose)) // a hash never fails
	return h.Sum(nil)
}

// check compares the Secret with the one of the others, and the engine's policy with what a store
// of claims needs.
func (s *ClaimStore) check(ctx context.Context) error {
	if info, err := s.e.do(ctx, "info", func(c rueidis.Client) rueidis.RedisResult {
		return c.Do(context.Background(), c.B().Info().Section("memory").Build())
	}); err == nil { // without the right to run INFO it is not known
		if text, _ := info.ToString(); strings.Contains(text, "maxmemory_policy:allkeys") {
			return ErrPolicy
		}
	}
	prefix := hex.EncodeToString(derived(s.o.Secret, "mark")) + ":"
	var set error
	m, err := s.e.do(ctx, "mark", func(c rueidis.Client) rueidis.RedisResult {
		key := s.base + "mark"
		set = c.Do(context.Background(), c.B().Set().Key(key).Value(prefix+rand.Text()).Nx().Build()).Error()
		return c.Do(context.Background(), c.B().Get().Key(key).Build())
	})
	if err != nil {
		return fmt.Errorf("%w: %w", once.ErrStore, err)
	}
	mark, err := m.ToString()
	switch {
	case err != nil: // there is none, because SET was refused, as by an engine that is full
		return fmt.Errorf("%w: %w", once.ErrStore, cmp.Or(set, err))
	case !strings.HasPrefix(mark, prefix):
		return ErrSecret
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mark = mark
	return nil
}

// live shows the others that this gateway is alive, until ctx ends, and settles its orphans.
func (s *ClaimStore) live(ctx context.Context) {
	defer close(s.stopped)
	for sleep(ctx, min(time.Second, s.o.Alive/4)) {
		if _, err := s.run(ctx, "live"); err != nil {
			continue // others see soon enough that it is not alive
		}
		s.mu.Lock()
		var ids []once.Digest
		for id := range s.orphans {
			ids = append(ids, id)
		}
		s.mu.Unlock()
		for _, id := range ids {
			if s.adopt(ctx, id) != nil {
				break
			}
		}
	}
}

// adopt settles the orphan of id, if there is one.
func (s *ClaimStore) adopt(ctx context.Context, id once.Digest) error {
	s.mu.Lock()
	o := s.orphans[id]
	s.mu.Unlock()
	if o == nil {
		return nil
	}
	var err error
	if o.free {
		_, err = s.run(ctx, "del", s.name(id), decimal(o.version))
	} else {
		r := o.record
		r.State, r.Reason = once.Unknown, once.ReasonNotKept
		r.Status, r.Header, r.Trailer, r.Body, r.Reserve = 0, nil, nil, nil, 0
		_, err = s.write(ctx, id, r, o.version, version())
	}
	switch {
	case errors.Is(err, once.ErrConflict): // the last write was stored, or has not arrived yet, over another connection
		if time.Now().Before(o.until) {
			return nil
		}
	case err != nil:
		return err
	}
	s.mu.Lock()
	if s.orphans[id] == o {
		delete(s.orphans, id)
	}
	s.mu.Unlock()
	return nil
}

func (s *ClaimStore) abandon(id once.Digest, o *orphan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.orphans) < maxOrphans {
		o.until = time.Now().Add(s.o.Alive)
		s.orphans[id] = o
	}
}

// Close ends the signs of life: claims that are left are unknown to the others immediately. The calls
// must have ended.
func (s *ClaimStore) Close(ctx context.Context) error {
	s.stop()
	defer func() { _, _ = s.run(ctx, "leave") }() // if it fails, others wait for Alive
	select {
	case <-s.stopped:
		return nil
	case <-ctx.Done():
		return cmp.Or(context.Cause(ctx), context.Canceled)
	}
}

// name returns what a record is called in the engine.
func (s *ClaimStore) name(id once.Digest) string { return s.hidden("record", id) }

func (s *ClaimStore) hidden(kind string, d once.Digest) string {
	h := hmac.New(sha256.New, s.names)
	h.Write([]byte(kind))
	h.Write(d[:])
	return hex.EncodeToString(h.Sum(nil))
}

// version returns a new version: a number that no other write uses, below 2^52, so that the
// script can represent it.
func version() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails
		if v := binary.BigEndian.Uint64(b[:]) >> 12; v != 0 {
			return v
		}
	}
}

// run runs the script, and takes from its reply what concerns this gateway as a whole. It
// returns the rest of the reply.
func (s *ClaimStore) run(ctx context.Context, op string, args ...string) (*reader, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	waits := s.o.Replicas > 0 && (op == "put" || op == "del")
	short := false
	m, err := s.e.do(ctx, "claims", func(c rueidis.Client) (r rueidis.RedisResult) {
		s.mu.Lock() // only now: an old number would hide that writes are lost
		confirmed, mark := s.confirmed, s.mark
		s.mu.Unlock()
		all := append([]string{op, s.own, decimal(confirmed), decimal(s.o.Alive.Milliseconds()), mark}, args...)
		if waits {
			r, short = s.replicated(c, all)
			return r
		}
		return claimsScript.run(ctx, c, []string{s.base}, all)
	})
	if short {
		err = errReplicas
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", once.ErrStore, err)
	}
	v, err := m.ToArray()
	if err != nil || len(v) < 5 {
		return nil, fmt.Errorf("%w: %w", once.ErrStore, errAnswer)
	}
	r := &reader{v: v}
	what, wrote, keys, bytes, unknown := r.text(0), r.number(1), r.number(2), r.number(3), r.number(4)
	if r.err != nil {
		return nil, fmt.Errorf("%w: %w", once.ErrStore, r.err)
	}
	s.mu.Lock()
	s.usage.Keys, s.usage.Bytes, s.usage.Unknown = int(keys), int64(bytes), int(unknown) //nolint:gosec // bounded by the options
	if what != "lost" {
		s.confirmed = max(s.confirmed, wrote)
	}
	s.mu.Unlock()
	switch what {
	case "ok":
		r.v = v[5:]
		return r, nil
	case "conflict":
		return nil, once.ErrConflict
	case "full":
		return nil, once.ErrFull
	case "share":
		return nil, once.ErrShare
	}
	return nil, ErrLost
}

// errReplicas means that a write was not confirmed by enough replicas in time.
var errReplicas = errors.New("not enough replicas have confirmed a write")

// replicated runs the script on one connection, and waits there until replicas have the write.
// It reports whether too few have it.
func (s *ClaimStore) replicated(c rueidis.Client, args []string) (r rueidis.RedisResult, short bool) {
	limit := max(s.e.o.Breaker.Deadline, fleet.DefaultDeadline)
	_ = c.Dedicated(func(d rueidis.DedicatedClient) error {
		r = d.Do(context.Background(), d.B().Evalsha().Sha1(claimsScript.hash).Numkeys(1).Key(s.base).Arg(args...).Build())
		if err, ok := rueidis.IsRedisErr(r.Error()); ok && err.IsNoScript() {
			r = d.Do(context.Background(), d.B().Eval().Script(claimsScript.text).Numkeys(1).Key(s.base).Arg(args...).Build())
		}
		if r.Error() != nil {
			return nil
		}
		// An engine that hangs does not end WAIT, to which the limit of other commands does not apply.
		ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
		defer cancel()
		w := d.Do(ctx, d.B().Wait().Numreplicas(int64(s.o.Replicas)).Timeout(limit.Milliseconds()).Build())
		n, err := w.AsInt64()
		short = err != nil || n < int64(s.o.Replicas)
		return nil
	})
	return r, short
}

// A sealed is the contents of a record.
type sealed struct {
	ID     once.Digest
	Record once.Record
	Body   []byte
	// Fields of HTTP need not be UTF-8, which JSON changes.
	Header, Trailer map[string][][]byte
}

func (s *ClaimStore) sealed(id once.Digest, r once.Record) (string, error) {
	v := sealed{ID: id, Record: r, Body: r.Body, Header: converted[[]byte](r.Header), Trailer: converted[[]byte](r.Trailer)}
	v.Record.Header, v.Record.Trailer = nil, nil
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, s.seal.NonceSize(), s.seal.NonceSize()+len(text)+s.seal.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return string(s.seal.Seal(nonce, nonce, text, []byte(s.name(id)))), nil
}

// opened returns the record in the reply of the script from at on: its version, state, owner, contents,
// and the milliseconds that it is kept.
func (s *ClaimStore) opened(r *reader, at int, name string) (once.Stored, error) {
	text := []byte(r.text(at + 3))
	var v sealed
	if n := s.seal.NonceSize(); len(text) < n {
		return once.Stored{}, fmt.Errorf("%w: a record is damaged", once.ErrStore)
	} else if plain, err := s.seal.Open(nil, text[:n], text[n:], []byte(name)); err != nil || json.Unmarshal(plain, &v) != nil {
		return once.Stored{}, fmt.Errorf("%w: a record is damaged, or sealed with another secret", once.ErrStore)
	}
	state, left := r.number(at+1), r.number(at+4)
	out := once.Stored{ID: v.ID, Version: r.number(at), Record: v.Record}
	if r.err != nil || state >= 256 {
		return once.Stored{}, fmt.Errorf("%w: %w", once.ErrStore, cmp.Or(r.err, errAnswer))
	}
	out.Header, out.Trailer, out.Body = converted[string](v.Header), converted[string](v.Trailer), v.Body
	out.Expires = time.Now().Add(time.Duration(left) * time.Millisecond) //nolint:gosec // at most 30 days
	switch {
	case out.State == once.Claimed && once.State(state) == once.Unknown: // the script has no secret to seal it again
		out.State, out.Reason, out.Reserve = once.Unknown, once.ReasonGone, 0
	case out.State != once.State(state):
		return once.Stored{}, fmt.Errorf("%w: a record has another state than its contents", once.ErrStore)
	}
	out.Elsewhere = out.State == once.Claimed && r.text(at+2) != s.own
	return out, nil
}

// Get implements [once.Store].
func (s *ClaimStore) Get(ctx context.Context, id once.Digest) (once.Stored, error) {
	if err := s.adopt(ctx, id); err != nil {
		return once.Stored{ID: id}, err
	}
	name := s.name(id)
	r, err := s.run(ctx, "get", name)
	if err != nil || len(r.v) == 0 {
		return once.Stored{ID: id}, err
	}
	if len(r.v) != 5 {
		return once.Stored{ID: id}, fmt.Errorf("%w: %w", once.ErrStore, errAnswer)
	}
	return s.opened(r, 0, name)
}

// Put implements [once.Store].
func (s *ClaimStore) Put(ctx context.Context, id once.Digest, r once.Record, old uint64) (uint64, error) {
	next, began := version(), time.Now()
	_, err := s.write(ctx, id, r, old, next)
	if errors.Is(err, ErrSecret) || errors.Is(err, ErrPolicy) {
		return 0, err
	}
	late := r.State == once.Claimed && time.Since(began) > s.o.Alive/2
	switch {
	case err == nil && !late:
		return next, nil
	case err == nil: // others may believe already that this gateway is gone
		err = fmt.Errorf("%w: the claim took too long", once.ErrStore)
	case !errors.Is(err, once.ErrStore) || errors.Is(err, ErrLost):
		return 0, err // it is certainly not stored
	}
	switch {
	case r.State == once.Claimed: // it is not sent: the key is as before
		s.abandon(id, &orphan{version: next, free: old == 0, record: r})
	case old != 0:
		s.abandon(id, &orphan{version: old, record: r})
	}
	return 0, err
}

func (s *ClaimStore) write(ctx context.Context, id once.Digest, r once.Record, old, next uint64) (*reader, error) {
	text, err := s.sealed(id, r)
	if err != nil {
		return nil, err
	}
	return s.run(ctx, "put", s.name(id), decimal(next), decimal(old), strconv.Itoa(int(r.State)), s.own,
		s.hidden("principal", r.Principal), decimal(recordWeight+int64(len(text))+r.Reserve), decimal(max(1, time.Until(r.Expires).Milliseconds())), text,
		decimal(s.o.Keys), decimal(s.o.Bytes), strconv.Itoa(once.Share))
}

// recordWeight is what a record counts in addition to its contents, for its names in the indexes.
const recordWeight = 600

// Delete implements [once.Store].
func (s *ClaimStore) Delete(ctx context.Context, id once.Digest, old uint64) error {
	_, err := s.run(ctx, "del", s.name(id), decimal(old))
	if errors.Is(err, once.ErrStore) && !errors.Is(err, ErrLost) {
		s.abandon(id, &orphan{version: old, free: true})
	}
	return err
}

// List implements [once.Store].
func (s *ClaimStore) List(ctx context.Context, most int, states ...once.State) ([]once.Stored, error) {
	wants := [2]bool{}
	for _, state := range states {
		switch state {
		case once.Claimed:
			wants[0] = true
		case once.Unknown:
			wants[1] = true
		default:
			return nil, fmt.Errorf("%w: List knows no calls that are %v", once.ErrStore, state)
		}
	}
	const parts = 6
	r, err := s.run(ctx, "list", strconv.Itoa(most), flag(wants[0]), flag(wants[1]))
	if err != nil {
		return nil, err
	}
	var all []once.Stored
	for at := 0; at+parts <= len(r.v); at += parts {
		one, err := s.opened(r, at+1, r.text(at))
		if err != nil {
			return nil, err
		}
		one.Header, one.Trailer, one.Body = nil, nil, nil
		all = append(all, one)
	}
	return all, nil
}

// Usage implements [once.Store]: as of the last reply of the engine, at most about a second ago.
// Claims of gateways that are alive are in none of its states.
func (s *ClaimStore) Usage() once.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usage
}

// converted converts the lines of fields, which need not be UTF-8.
func converted[To, From ~string | ~[]byte](h map[string][]From) map[string][]To {
	if h == nil {
		return nil
	}
	out := make(map[string][]To, len(h))
	for name, lines := range h {
		for _, line := range lines {
			out[name] = append(out[name], To(line))
		}
	}
	return out
}
