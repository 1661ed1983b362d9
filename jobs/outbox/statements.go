package outbox

import "strings"

// statements are the texts of all SQL statements, with the table's schema. Each
// parameter has a cast, so that drivers and poolers without prepared statements can run
// them.
type statements struct {
	insert, insertAll               string
	claim, release, remove, park    string
	queues, unknown, backlog        string
	parked, input, retry, drop      string
	restored, version, parkedCounts string
}

// columns are those that a row keeps when it is parked or retried.
const columns = "queue, id, input, version, serial, owner, fingerprint, enqueued_at, not_before, deadline"

func newStatements(schema string) statements {
	if schema != "" {
		schema = `"` + schema + `".`
	}
	names := strings.NewReplacer("{outbox}", schema+"weir_outbox", "{parked}", schema+"weir_outbox_parked",
		"{version}", schema+"weir_outbox_version", "{columns}", columns,
		"{since tried}", since("sized.tried_at"), "{since start}", since("o.not_before"), "{since deadline}", since("o.deadline"),
		"{age}", since("o.enqueued_at"), "{enqueued}", shown("enqueued_at"), "{parked at}", shown("parked_at"))
	in := func(text string) string { return names.Replace(strings.Replace(text, "{queues}", distinctQueues, 1)) }
	return statements{
		insert: in(`INSERT INTO {outbox} (queue, id, input, version) VALUES ($1::text, $2::text, $3::bytea, $4::integer)`),
		insertAll: in(`INSERT INTO {outbox} (queue, id, input, version, serial, owner, fingerprint, not_before, deadline)
			VALUES ($1::text, $2::text, $3::bytea, $4::integer, $5::text, $6::text, $7::text,
				CASE WHEN $8::bigint > 0 THEN clock_timestamp() + $8::bigint * interval '1 microsecond' END,
				CASE WHEN $9::bigint > 0 THEN clock_timestamp() + $9::bigint * interval '1 microsecond' END)`),

		claim:   in(claimSQL),
		remove:  in(`DELETE FROM {outbox} WHERE queue = $1::text AND seq = ANY($2::text::bigint[]) AND claim = $3::text`),
		release: in(releaseSQL),
		park:    in(parkSQL),

		queues: in(`{queues} SELECT queue FROM queues WHERE queue IS NOT NULL`),
		unknown: in(`WITH old AS (SELECT queue, seq FROM {outbox}
				WHERE queue = $1::text AND (NOT isfinite(enqueued_at) OR enqueued_at <= clock_timestamp() - $2::bigint * interval '1 microsecond')
				ORDER BY seq LIMIT $3::integer FOR UPDATE SKIP LOCKED),
			gone AS (DELETE FROM {outbox} o USING old WHERE o.queue = old.queue AND o.seq = old.seq RETURNING o.*)
			INSERT INTO {parked} (seq, {columns}, tried_at, reason, detail)
			SELECT seq, {columns}, tried_at, $4::text, $5::text FROM gone RETURNING id`),
		backlog: in(`{queues} SELECT q.queue,
				(SELECT count(*) FROM (SELECT 1 FROM {outbox} o WHERE o.queue = q.queue LIMIT $1::integer) AS counted),
				(SELECT {age} FROM {outbox} o WHERE o.queue = q.queue ORDER BY seq LIMIT 1)
			FROM queues q WHERE q.queue IS NOT NULL`),
		parkedCounts: in(`SELECT queue, count(*) FROM (SELECT queue FROM {parked} LIMIT $1::integer) AS counted GROUP BY queue`),

		parked: in(`SELECT seq, queue, id, version, octet_length(input), owner, {enqueued}, {parked at}, reason, detail
			FROM {parked} WHERE ($1::text = '' OR queue = $1::text) AND ($2::text = '' OR reason = $2::text) AND seq > $3::bigint
			ORDER BY seq LIMIT $4::integer`),
		input: in(`SELECT input FROM {parked} WHERE seq = $1::bigint`),
		retry: in(`WITH back AS (DELETE FROM {parked} WHERE seq = ANY($1::text::bigint[]) RETURNING *),
			added AS (INSERT INTO {outbox} ({columns}, tried_at)
				SELECT {columns}, CASE WHEN reason <> 'doubtful' THEN tried_at END FROM back ORDER BY seq RETURNING queue)
			SELECT count(*), count(pg_notify('` + Channel + `', queue)) FROM added`),
		drop: in(`DELETE FROM {parked} WHERE seq = ANY($1::text::bigint[])`),

		restored: in(`UPDATE {outbox} SET tried_at = enqueued_at, claim = NULL, claimed_until = NULL WHERE tried_at IS NULL OR tried_at > enqueued_at`),
		version:  in(`SELECT coalesce(max(version), 0) FROM {version}`),
	}
}

// claimSQL claims rows for a batch ($2) until a time from now ($4, in microseconds). The
// rows that other relays are claiming are skipped, not waited for. The inputs stay
// below $5 bytes in total; the first row is exempt. An input above $6 bytes is left out.
//
// No value of a row can make it fail, because one row would then hold up its queue.
const claimSQL = `WITH free AS MATERIALIZED (
		SELECT seq, tried_at, octet_length(input) AS size FROM {outbox}
		WHERE queue = $1::text AND (claimed_until IS NULL OR claimed_until <= clock_timestamp())
		ORDER BY seq LIMIT $3::integer FOR UPDATE SKIP LOCKED),
	sized AS (SELECT *, sum(least(size, $6::integer)) OVER (ORDER BY seq) AS total, row_number() OVER (ORDER BY seq) AS n FROM free)
	UPDATE {outbox} o SET claim = $2::text, claimed_until = clock_timestamp() + $4::bigint * interval '1 microsecond',
		tried_at = coalesce(o.tried_at, clock_timestamp())
	FROM sized WHERE o.queue = $1::text AND o.seq = sized.seq AND (sized.total <= $5::bigint OR sized.n = 1)
	RETURNING o.seq, o.id, CASE WHEN sized.size <= $6::integer THEN o.input END, sized.size, o.version, o.serial, o.owner, o.fingerprint, o.tries,
		{since tried}, -{since start}, -{since deadline},
		isfinite(sized.tried_at) IS NOT FALSE AND isfinite(o.not_before) IS NOT FALSE AND isfinite(o.deadline) IS NOT FALSE`

// since returns the SQL for the microseconds since an instant, up to a century in either
// direction: PostgreSQL has no difference to an infinite instant, and a time.Duration
// holds no more than three centuries. It is null if the instant is.
func since(at string) string {
	return strings.ReplaceAll(`(CASE WHEN {at} IS NOT NULL THEN (extract(epoch FROM clock_timestamp() - least(greatest({at},
			clock_timestamp() - interval '100 years'), clock_timestamp() + interval '100 years')) * 1000000)::bigint END)`, "{at}", at)
}

// shown returns the SQL for an instant if it is one that a time.Time shows as JSON, and
// null otherwise.
func shown(at string) string {
	return "(CASE WHEN " + at + " BETWEEN timestamptz '0001-01-02 00:00:00+00' AND timestamptz '9999-12-30 00:00:00+00' THEN " + at + " END)"
}

// releaseSQL ends the claim of rows. Those of $4 were not submitted for certain, those
// of $5 have failed once more.
const releaseSQL = `UPDATE {outbox} SET claim = NULL, claimed_until = NULL,
		tried_at = CASE WHEN seq = ANY($4::text::bigint[]) THEN NULL ELSE tried_at END,
		tries = tries + CASE WHEN seq = ANY($5::text::bigint[]) THEN 1 ELSE 0 END
	WHERE queue = $1::text AND seq = ANY($2::text::bigint[]) AND claim = $3::text`

// parkSQL moves a claimed row to the parked ones.
const parkSQL = `WITH gone AS (DELETE FROM {outbox} WHERE queue = $1::text AND seq = $2::bigint AND claim = $3::text RETURNING *)
	INSERT INTO {parked} (seq, {columns}, tried_at, reason, detail)
	SELECT seq, {columns}, tried_at, $4::text, $5::text FROM gone`

// distinctQueues lists the names of the queues that have rows, with one look at the
// index for each.
const distinctQueues = `WITH RECURSIVE queues AS (
		(SELECT queue FROM {outbox} ORDER BY queue LIMIT 1)
		UNION ALL
		SELECT (SELECT o.queue FROM {outbox} o WHERE o.queue > q.queue ORDER BY o.queue LIMIT 1)
		FROM queues q WHERE q.queue IS NOT NULL)`

// notifying returns an insert that also notifies the listeners when its transaction
// commits.
func notifying(insert string) string {
	return "WITH added AS (" + insert + ") SELECT pg_notify('" + Channel + "', $1::text)"
}
