-- The ledger's statements on SQLite. Each begins with `-- name:`; the lines below it say what it is for.
-- `entries` is the truth and only grows. The other tables are its projection: the statements that make them, run by
-- triggers, read nothing but the entry's own payload, so the verifier can rebuild them and compare. There `:name` is a field of
-- the payload and `:calls_name` one of a call; see sqlite_projection.py.

-- name: schema
-- Version 2. Everything is STRICT; the triggers stop mistakes, the hash chain shows intent.
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind <> ''),
    payload TEXT NOT NULL,
    prev_hash BLOB NOT NULL,
    hash BLOB NOT NULL
) STRICT;
CREATE TRIGGER entries_keep_content BEFORE UPDATE ON entries
BEGIN SELECT raise(ABORT, 'ledger entries are never changed'); END;
CREATE TRIGGER entries_keep_rows BEFORE DELETE ON entries
BEGIN SELECT raise(ABORT, 'ledger entries are never deleted'); END;
CREATE TABLE turns (
    turn_id TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    actor TEXT NOT NULL,
    route TEXT NOT NULL,
    upstream TEXT NOT NULL,
    dialect TEXT NOT NULL,
    model TEXT,
    streamed INTEGER NOT NULL,
    mode TEXT NOT NULL,
    response_id TEXT,
    started_at REAL NOT NULL,
    first_event_at REAL,
    last_event_at REAL,
    decided_at REAL,
    terminal_event TEXT,
    terminal_reason TEXT,
    outcome TEXT,
    reason TEXT,
    findings TEXT,
    codes TEXT,
    latch TEXT,
    policy TEXT,
    events INTEGER,
    bytes_in INTEGER,
    bytes_held INTEGER,
    bytes_injected INTEGER,
    sha256 TEXT,
    delivery TEXT NOT NULL,
    requested_model TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX turns_by_tenant ON turns (tenant, turn_id);
CREATE INDEX turns_by_outcome ON turns (outcome, turn_id);
CREATE INDEX turns_by_response ON turns (response_id) WHERE response_id IS NOT NULL;
CREATE INDEX turns_unfinished ON turns (turn_id) WHERE outcome IS NULL;
CREATE INDEX turns_unconfirmed ON turns (turn_id) WHERE delivery = 'pending';
CREATE TABLE calls (
    turn_id TEXT NOT NULL REFERENCES turns (turn_id),
    choice INTEGER NOT NULL,
    slot TEXT NOT NULL,
    call_id TEXT,
    tool TEXT,
    kind TEXT NOT NULL,
    runs_on TEXT NOT NULL,
    fragments INTEGER NOT NULL,
    argument_bytes INTEGER NOT NULL,
    argument_hmac TEXT,
    parse TEXT NOT NULL,
    "schema" TEXT NOT NULL,
    schema_digest TEXT,
    first_event_at REAL,
    last_event_at REAL,
    terminal_event TEXT,
    state TEXT NOT NULL,
    PRIMARY KEY (turn_id, choice, slot)
) STRICT, WITHOUT ROWID;
CREATE INDEX calls_by_tool ON calls (tool, turn_id);

-- name: schema_operator
-- The operator's part of version 2: standing stops, and who asked for what.
-- A latch's column that is NULL does not narrow it, so a latch covers a turn when all its other columns match; the
-- checks demand what each kind is about.
CREATE TABLE latches (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('quarantine_turn', 'quarantine_response', 'disable_tool', 'stop_tenant',
        'stop_upstream', 'stop_model', 'stop_all')),
    turn_id TEXT,
    response_id TEXT,
    tool TEXT,
    tenant TEXT,
    upstream TEXT,
    model TEXT,
    route TEXT,
    created_at REAL NOT NULL,
    lifted_at REAL,
    reason TEXT NOT NULL CHECK (reason <> ''),
    actor TEXT NOT NULL CHECK (actor <> ''),
    expires_at REAL,
    lifted_by TEXT,
    lift_reason TEXT,
    turns TEXT,
    calls TEXT,
    CHECK ((kind = 'quarantine_turn') = (turn_id IS NOT NULL)),
    CHECK ((kind = 'quarantine_response') = (response_id IS NOT NULL)),
    CHECK ((kind = 'disable_tool') = (tool IS NOT NULL)),
    CHECK (kind <> 'stop_tenant' OR tenant IS NOT NULL),
    CHECK (kind <> 'stop_upstream' OR upstream IS NOT NULL),
    CHECK (kind <> 'stop_model' OR model IS NOT NULL),
    CHECK (kind <> 'stop_all' OR coalesce(tenant, upstream, model, route) IS NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX latches_standing ON latches (kind) WHERE lifted_at IS NULL;
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    actor TEXT NOT NULL,
    token_id TEXT NOT NULL,
    role TEXT NOT NULL,
    peer TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    status INTEGER NOT NULL,
    code TEXT,
    latch TEXT,
    idempotency_key TEXT,
    request_sha256 TEXT
) STRICT;
CREATE TABLE claims (
    turn_id TEXT NOT NULL,
    choice INTEGER NOT NULL,
    slot TEXT NOT NULL,
    key TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (turn_id, choice, slot)
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_by_actor ON audit (actor, seq);
CREATE UNIQUE INDEX audit_by_key ON audit (actor, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- name: migrate_1
-- From version 1. Which kinds of entry there are is the code's to say from now on; SQLite's own procedure changes such a
-- check in place (sqlite.org/lang_altertable.html#otheralter), however long the ledger is.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (kind IN (''opened'', ''held'', ''decided'', ''withdrawn'', ''delivery''))', 'CHECK (kind <> '''')')
WHERE type = 'table' AND name = 'entries';
PRAGMA writable_schema = RESET;
ALTER TABLE turns ADD COLUMN requested_model TEXT;
DROP INDEX latches_standing;
ALTER TABLE latches RENAME TO latches_1;

-- name: list_latches_1
-- What stands in a ledger of version 1, which nothing but a hand can have put there.
SELECT CAST(json_object('id', id, 'kind', kind, 'turn_id', turn_id, 'response_id', response_id, 'tool', tool,
    'tenant', tenant, 'upstream', upstream, 'model', model, 'route', route, 'created_at', created_at,
    'reason', reason, 'actor', actor) AS BLOB) FROM latches_1 WHERE lifted_at IS NULL ORDER BY id;

-- name: drop_latches_1
-- The old table, once what stood in it stands in the chain.
DROP TABLE latches_1;

-- name: read_head
-- The last entry, to go on with the chain.
SELECT seq, kind, CAST(payload AS BLOB), prev_hash, hash FROM entries ORDER BY seq DESC LIMIT 1;

-- name: append_entry
-- Add one entry. Its number is given, never chosen by SQLite: the chain covers it.
INSERT INTO entries (seq, kind, payload, prev_hash, hash)
VALUES (:seq, :kind, :payload, :prev_hash, :hash);

-- name: project_held
-- A turn begins to be held; its outcome stays NULL until it is decided.
INSERT INTO turns (turn_id, seq, tenant, actor, route, upstream, dialect, model, streamed, mode, response_id,
    started_at, delivery, requested_model)
VALUES (:turn_id, :seq, :tenant, :actor, :route, :upstream, :dialect, :model, :streamed, :mode, :response_id,
    :started_at, 'none', :requested_model);

-- name: drop_calls
-- What a release that is withdrawn said of its calls.
DELETE FROM calls WHERE turn_id = :turn_id;

-- name: project_decided
-- A turn as decided, whether it was held before or not; also used for a withdrawn release. Its row is changed, not replaced, and
-- the tenant only where it is another one: what is set is written anew into each index that has it.
INSERT INTO turns (turn_id, seq, tenant, actor, route, upstream, dialect, model, streamed, mode, response_id,
    started_at, first_event_at, last_event_at, decided_at, terminal_event, terminal_reason, outcome, reason,
    findings, codes, latch, policy, events, bytes_in, bytes_held, bytes_injected, sha256, delivery, requested_model)
VALUES (:turn_id, :seq, :tenant, :actor, :route, :upstream, :dialect, :model, :streamed, :mode, :response_id,
    :started_at, :first_event_at, :last_event_at, :decided_at, :terminal_event, :terminal_reason, :outcome, :reason,
    CAST(:findings AS TEXT), CAST(:codes AS TEXT), :latch, :policy, :events, :bytes_in, :bytes_held, :bytes_injected,
    :sha256, :delivery, :requested_model)
ON CONFLICT (turn_id) DO UPDATE SET seq = excluded.seq, actor = excluded.actor, route = excluded.route,
    upstream = excluded.upstream, dialect = excluded.dialect, model = excluded.model,
    streamed = excluded.streamed, mode = excluded.mode, response_id = excluded.response_id,
    started_at = excluded.started_at, first_event_at = excluded.first_event_at, last_event_at = excluded.last_event_at,
    decided_at = excluded.decided_at, terminal_event = excluded.terminal_event,
    terminal_reason = excluded.terminal_reason, outcome = excluded.outcome, reason = excluded.reason,
    findings = excluded.findings, codes = excluded.codes, latch = excluded.latch, policy = excluded.policy,
    events = excluded.events, bytes_in = excluded.bytes_in, bytes_held = excluded.bytes_held,
    bytes_injected = excluded.bytes_injected, sha256 = excluded.sha256, delivery = excluded.delivery,
    requested_model = excluded.requested_model;
UPDATE turns SET tenant = :tenant WHERE turn_id = :turn_id AND tenant <> :tenant;

-- name: project_call
-- One call of a turn as decided.
INSERT INTO calls (turn_id, choice, slot, call_id, tool, kind, runs_on, fragments, argument_bytes, argument_hmac,
    parse, "schema", schema_digest, first_event_at, last_event_at, terminal_event, state)
VALUES (:turn_id, :calls_choice, :calls_slot, :calls_call_id, :calls_tool, :calls_kind, :calls_runs_on, :calls_fragments,
    :calls_argument_bytes, :calls_argument_hmac, :calls_parse, :calls_schema, :calls_schema_digest, :calls_first_event_at,
    :calls_last_event_at, :calls_terminal_event, :calls_state);

-- name: project_delivery
-- What became of the bytes of a released turn.
UPDATE turns SET delivery = :delivery WHERE turn_id = :turn_id;

-- name: project_claimed
-- Somebody may run a call, and nobody else.
INSERT INTO claims (turn_id, choice, slot, key, seq, at)
VALUES (:payload ->> 'turn_id', :payload ->> 'choice', :payload ->> 'slot', :payload ->> 'key', :seq, :payload ->> 'at');

-- name: project_audited
-- One request to the operator's interface; `audit` is null where the gate acts by itself.
INSERT INTO audit (seq, at, actor, token_id, role, peer, method, path, status, code, latch, idempotency_key,
    request_sha256)
SELECT :seq, value ->> 'at', value ->> 'actor', value ->> 'token_id', value ->> 'role', value ->> 'peer',
    value ->> 'method', value ->> 'path', value ->> 'status', value ->> 'code', value ->> 'latch',
    value ->> 'idempotency_key', value ->> 'request_sha256'
FROM (SELECT :payload -> 'audit' AS value) WHERE value <> 'null';

-- name: project_latched
-- A latch is in force from here on.
INSERT INTO latches (id, kind, turn_id, response_id, tool, tenant, upstream, model, route, created_at, reason, actor,
    expires_at, turns, calls)
SELECT value ->> 'id', value ->> 'kind', value ->> 'turn_id', value ->> 'response_id', value ->> 'tool',
    value ->> 'tenant', value ->> 'upstream', value ->> 'model', value ->> 'route', value ->> 'created_at',
    value ->> 'reason', value ->> 'actor', value ->> 'expires_at', value -> 'turns', value -> 'calls'
FROM (SELECT :payload -> 'latch' AS value);

-- name: project_lifted
-- A latch is over.
UPDATE latches SET lifted_at = :payload ->> '$.lift.lifted_at', lifted_by = :payload ->> '$.lift.lifted_by',
    lift_reason = :payload ->> '$.lift.lift_reason'
WHERE id = :payload ->> '$.lift.id';

-- name: read_latch_state
-- Whether a latch exists and whether it was lifted.
SELECT lifted_at FROM latches WHERE id = :id;

-- name: read_claimed_call
-- A call with its turn's last word, and the claim on it, if there is one.
SELECT turns.outcome, calls.runs_on, CAST(entries.payload AS BLOB), claims.key, claims.seq
FROM calls JOIN turns USING (turn_id) JOIN entries USING (seq)
    LEFT JOIN claims ON (claims.turn_id, claims.choice, claims.slot) = (calls.turn_id, calls.choice, calls.slot)
WHERE calls.turn_id = :payload ->> 'turn_id' AND calls.choice = :payload ->> 'choice'
    AND calls.slot = :payload ->> 'slot';

-- name: read_turn_state
-- How far a turn has come: no row, outcome NULL (held), or its terminal outcome.
SELECT outcome, delivery FROM turns WHERE turn_id = :turn_id;

-- name: find_stop
-- The oldest standing latch that covers a turn, by the turn's own payload.
SELECT id, kind FROM latches
WHERE lifted_at IS NULL
    AND (turn_id IS NULL OR turn_id = :payload ->> 'turn_id')
    AND (response_id IS NULL OR response_id = :payload ->> 'response_id')
    AND (tenant IS NULL OR tenant = :payload ->> 'tenant')
    AND (upstream IS NULL OR upstream = :payload ->> 'upstream')
    AND (model IS NULL OR model IN (:payload ->> 'model', :payload ->> 'requested_model'))
    AND (route IS NULL OR route = :payload ->> 'route')
    AND (tool IS NULL OR tool IN (SELECT value ->> 'tool' FROM json_each(:payload, '$.calls') UNION ALL
        SELECT inside.value FROM json_each(:payload, '$.calls') AS call, json_each(call.value, '$.inside') AS inside))
ORDER BY created_at, id LIMIT 1;

-- name: find_delivery
-- How the calls of the same provider response were decided before: for a turn that only fetches it, in whatever turn brought
-- calls of it; for the turn that made it, in one that fetched it meanwhile. A response that was still being made decides
-- nothing; a turn that ended before it could say what it held decides all. Of a response that hands calls over several times,
-- only turns with the same calls count. Some servers give every response the same id: the index has the turn's id too, so
-- that a turn that made its response looks at newer turns only.
SELECT turns.outcome, turns.turn_id FROM turns JOIN entries USING (seq)
WHERE turns.response_id = :payload ->> 'response_id'
    AND turns.upstream = :payload ->> 'upstream'
    AND turns.turn_id <> :payload ->> 'turn_id'
    AND turns.turn_id > CASE WHEN :payload ->> 'fetched' THEN '' ELSE :payload ->> 'turn_id' END
    AND CASE WHEN :payload ->> 'fetched'
        THEN turns.outcome IN ('released', 'blocked', 'cancelled')
            AND coalesce(turns.terminal_reason, '') NOT IN ('queued', 'in_progress')
            AND (turns.reason IN ('restart', 'shutdown', 'gate_failure') OR EXISTS
                (SELECT 1 FROM calls WHERE calls.turn_id = turns.turn_id AND calls.runs_on = 'agent'))
        ELSE turns.outcome = 'released' AND entries.payload ->> 'fetched'
        END
    AND CASE WHEN :payload ->> 'staged'
        THEN turns.reason IN ('restart', 'shutdown', 'gate_failure') OR EXISTS
            (SELECT 1 FROM calls JOIN json_each(:payload, '$.calls') AS mine ON calls.call_id = mine.value ->> 'call_id'
            WHERE calls.turn_id = turns.turn_id AND calls.runs_on = 'agent')
        ELSE 1 END
LIMIT 1;

-- name: check_release
-- All that can stand against a release, in one statement: the turn's own end, a stop, an earlier delivery. Each further
-- statement would give the interpreter away and wait to get it back.
SELECT (SELECT outcome FROM turns WHERE turn_id = :payload ->> 'turn_id'), stop.id, stop.kind, EXISTS @find_delivery
FROM (SELECT 1) LEFT JOIN @find_stop AS stop;

-- name: guard_release
-- What a release must pass to be added without a further question: that nothing can stand against it. Each row by which
-- `check_release` would refuse it is among these, and most often there is none.
SELECT raise(ABORT, 'in doubt')
WHERE EXISTS (SELECT 1 FROM turns WHERE turn_id = :turn_id AND outcome IS NOT NULL)
    OR EXISTS (SELECT 1 FROM latches WHERE lifted_at IS NULL)
    OR EXISTS (SELECT 1 FROM turns WHERE response_id = :response_id AND turn_id <> :turn_id);

-- name: find_ender
-- The latch that ended a turn when it was created.
SELECT id, kind FROM latches WHERE EXISTS (SELECT 1 FROM json_each(latches.turns) WHERE value = :turn_id) LIMIT 1;

-- name: list_latches
-- Latches, newest first, by page; with `:standing` only those in force.
SELECT CAST(json_object('id', id, 'kind', kind, 'turn_id', turn_id, 'response_id', response_id, 'tool', tool,
    'tenant', tenant, 'upstream', upstream, 'model', model, 'route', route, 'created_at', created_at,
    'reason', reason, 'actor', actor, 'expires_at', expires_at, 'lifted_at', lifted_at, 'lifted_by', lifted_by,
    'lift_reason', lift_reason, 'turns', json(coalesce(turns, '[]')), 'calls', json(coalesce(calls, '[]'))) AS BLOB)
FROM latches
WHERE (:id IS NULL OR id = :id) AND (:before IS NULL OR id < :before) AND (NOT :standing OR lifted_at IS NULL)
ORDER BY id DESC LIMIT :limit;

-- name: list_audit
-- The audit's rows, newest first, by page; with `:changes` only what was meant to change something.
SELECT seq, at, actor, token_id, role, peer, method, path, status, code, latch, idempotency_key, request_sha256,
    coalesce(payload ->> '$.audit.reason', payload ->> '$.latch.reason', payload ->> '$.lift.lift_reason')
FROM audit JOIN entries USING (seq)
WHERE (:before IS NULL OR seq < :before) AND (:actor IS NULL OR actor = :actor)
    AND (:latch IS NULL OR latch = :latch) AND (NOT :changes OR method <> 'GET')
ORDER BY seq DESC LIMIT :limit;

-- name: find_keyed_request
-- The write that an actor sent under an idempotency key.
SELECT seq, at, actor, token_id, role, peer, method, path, status, code, latch, idempotency_key, request_sha256,
    coalesce(payload ->> '$.audit.reason', payload ->> '$.latch.reason', payload ->> '$.lift.lift_reason')
FROM audit JOIN entries USING (seq) WHERE actor = :actor AND idempotency_key = :key;

-- name: list_calls
-- Calls with their turns, newest turn first, by page: each filter that is NULL does not narrow.
SELECT calls.turn_id, choice, slot, call_id, tool, kind, runs_on, argument_bytes, state, tenant, upstream, route, model,
    outcome, reason, latch, delivery, started_at, decided_at
FROM calls JOIN turns USING (turn_id)
WHERE (:before IS NULL OR calls.turn_id < :before
        OR (calls.turn_id = :before AND (choice, slot) > (:choice, :slot)))
    AND (:turn_id IS NULL OR calls.turn_id = :turn_id)
    AND (:tool IS NULL OR tool = :tool)
    AND (:call_id IS NULL OR call_id = :call_id)
    AND (:state IS NULL OR state = :state)
    AND (:tenant IS NULL OR tenant = :tenant)
    AND (:upstream IS NULL OR upstream = :upstream)
    AND (:outcome IS NULL OR outcome = :outcome)
    AND (:latch IS NULL OR latch = :latch)
ORDER BY calls.turn_id DESC, choice, slot LIMIT :limit;

-- name: list_unfinished
-- Turns that an earlier process held and never decided.
SELECT CAST(entries.payload AS BLOB) FROM turns JOIN entries USING (seq) WHERE turns.outcome IS NULL ORDER BY turn_id;

-- name: list_unconfirmed
-- Turns that an earlier process released without confirming that the bytes were sent.
SELECT turn_id FROM turns WHERE delivery = 'pending' ORDER BY turn_id;

-- name: read_last_key_id
-- Which HMAC key the ledger was last opened with.
SELECT payload ->> 'key_id' FROM entries WHERE kind = 'opened' ORDER BY seq DESC LIMIT 1;

-- name: list_turns
-- Newest first, by page: each filter that is NULL does not narrow.
SELECT CAST(entries.payload AS BLOB), turns.delivery FROM turns JOIN entries USING (seq)
WHERE (:before IS NULL OR turn_id < :before)
    AND (:tenant IS NULL OR tenant = :tenant)
    AND (:upstream IS NULL OR upstream = :upstream)
    AND (:outcome IS NULL OR outcome = :outcome)
    AND (:reason IS NULL OR reason = :reason)
    AND (:response_id IS NULL OR response_id = :response_id)
    AND (:tool IS NULL OR EXISTS
        (SELECT 1 FROM calls WHERE calls.turn_id = turns.turn_id AND calls.tool = :tool))
ORDER BY turn_id DESC LIMIT :limit;

-- name: get_turn
-- One turn as last recorded.
SELECT CAST(entries.payload AS BLOB), turns.delivery FROM turns JOIN entries USING (seq) WHERE turn_id = :turn_id;

-- name: get_delivery_time
-- When the last word on a released turn's bytes was known. It follows the release closely, so few entries are looked at.
SELECT payload ->> 'at' FROM entries
WHERE seq > (SELECT seq FROM turns WHERE turn_id = :turn_id AND delivery IN ('sent', 'unknown'))
    AND kind = 'delivery' AND payload ->> 'turn_id' = :turn_id
ORDER BY seq LIMIT 1;

-- name: list_claims
-- The calls of a turn that somebody has claimed.
SELECT choice, slot, at FROM claims WHERE turn_id = :turn_id ORDER BY at, choice, slot;

-- name: count_decided
-- Turns by how they ended, in steps of `:step` seconds since `:since`. No turn that was asked for before `:first` is looked at.
SELECT CAST(floor((decided_at - :since) / :step) AS INTEGER), outcome, reason, count(*) FROM turns
WHERE turn_id >= :first AND decided_at >= :since AND decided_at < :until AND outcome <> 'passed'
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;

-- name: measure_waits
-- How long turns waited for the provider's first event, and from their first call to the decision: the number of them and
-- the 50th and the 99th percentile, by nearest rank, in the same steps.
WITH waits (step, what, seconds) AS (
    SELECT CAST(floor((decided_at - :since) / :step) AS INTEGER), 'first_event', first_event_at - started_at FROM turns
    WHERE turn_id >= :first AND decided_at >= :since AND decided_at < :until
    UNION ALL
    SELECT CAST(floor((decided_at - :since) / :step) AS INTEGER), 'held', decided_at -
        (SELECT min(calls.first_event_at) FROM calls WHERE calls.turn_id = turns.turn_id AND runs_on = 'agent') FROM turns
    WHERE turn_id >= :first AND decided_at >= :since AND decided_at < :until AND mode = 'enforce' AND outcome <> 'passed'
), ranked AS (
    SELECT step, what, seconds, row_number() OVER (PARTITION BY what, step ORDER BY seconds) AS place,
        count(*) OVER (PARTITION BY what, step) AS turns
    FROM waits WHERE seconds >= 0
)
SELECT step, what, max(turns), min(CASE WHEN place >= 0.5 * turns THEN seconds END),
    min(CASE WHEN place >= 0.99 * turns THEN seconds END)
FROM ranked GROUP BY step, what ORDER BY step, what;

-- name: list_entries
-- The whole chain in order.
SELECT seq, kind, CAST(payload AS BLOB), prev_hash, hash FROM entries ORDER BY seq;

-- name: list_attached_entries
-- The whole chain of the ledger under verification.
SELECT seq, kind, CAST(payload AS BLOB), prev_hash, hash FROM ledger.entries ORDER BY seq;

-- name: compare_views
-- Rows of the ledger's views that differ from a replay of its entries, by turn; `seq` is the entry they stem from.
SELECT min(seq), turn_id FROM (
    SELECT seq, turn_id FROM (SELECT * FROM ledger.turns EXCEPT SELECT * FROM main.turns)
    UNION ALL
    SELECT seq, turn_id FROM (SELECT * FROM main.turns EXCEPT SELECT * FROM ledger.turns)
    UNION ALL
    SELECT coalesce((SELECT seq FROM main.turns WHERE main.turns.turn_id = odd.turn_id), 0), turn_id
    FROM (SELECT * FROM (SELECT * FROM ledger.calls EXCEPT SELECT * FROM main.calls)
        UNION ALL
        SELECT * FROM (SELECT * FROM main.calls EXCEPT SELECT * FROM ledger.calls)) AS odd
) GROUP BY turn_id ORDER BY 1, 2 LIMIT 1;

-- name: compare_operator_views
-- A latch, an audit row or a claim that differs from a replay of the entries.
SELECT 'latch ' || id FROM (
    SELECT id FROM (SELECT * FROM ledger.latches EXCEPT SELECT * FROM main.latches)
    UNION ALL
    SELECT id FROM (SELECT * FROM main.latches EXCEPT SELECT * FROM ledger.latches)
) UNION ALL SELECT 'audit row ' || seq FROM (
    SELECT seq FROM (SELECT * FROM ledger.audit EXCEPT SELECT * FROM main.audit)
    UNION ALL
    SELECT seq FROM (SELECT * FROM main.audit EXCEPT SELECT * FROM ledger.audit)
) UNION ALL SELECT 'claim ' || seq FROM (
    SELECT seq FROM (SELECT * FROM ledger.claims EXCEPT SELECT * FROM main.claims)
    UNION ALL
    SELECT seq FROM (SELECT * FROM main.claims EXCEPT SELECT * FROM ledger.claims)
) ORDER BY 1 LIMIT 1;
