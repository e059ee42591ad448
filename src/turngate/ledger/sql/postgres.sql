-- The ledger's statements on PostgreSQL: the same tables, names and answers as on SQLite, so that what is said there of
-- `entries` and its projection holds here too. A projection is run by its entry's number and reads nothing but its payload.
-- The payload is the very text that the chain covers. NUL, which JSON can spell and no text of PostgreSQL can hold, is U+FFFD in the
-- views and wherever they are compared. `json` and not `jsonb`: it keeps the text of what is taken out of it.

-- name: schema
-- Version 2. Text that is sorted has the order of its bytes, whatever the server's language is. A provider's words may be longer
-- than a B-tree takes (2,704 bytes), so there they stand by their beginning, or as a hash.
CREATE TABLE ledger_schema (version integer NOT NULL);
CREATE TABLE entries (
    seq bigint PRIMARY KEY,
    kind text NOT NULL CHECK (kind <> ''),
    payload text NOT NULL,
    prev_hash bytea NOT NULL,
    hash bytea NOT NULL,
    writer integer NOT NULL
);
CREATE INDEX entries_of_latches ON entries (seq) WHERE kind IN ('latched', 'lifted');
CREATE INDEX entries_of_openings ON entries (seq) WHERE kind = 'opened';
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'ledger entries are never changed or deleted'; END $$;
CREATE TRIGGER entries_keep BEFORE UPDATE OR DELETE OR TRUNCATE ON entries EXECUTE FUNCTION refuse_change();
CREATE TABLE writers (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    host text NOT NULL,
    since timestamptz NOT NULL DEFAULT now(),
    generation bigint NOT NULL
);
COMMENT ON TABLE writers IS 'gates that have this ledger open; generation is the last change of a latch that a gate has heard of';
CREATE TABLE turns (
    turn_id text COLLATE "C" PRIMARY KEY,
    seq bigint NOT NULL,
    tenant text NOT NULL,
    actor text NOT NULL,
    route text NOT NULL,
    upstream text NOT NULL,
    dialect text NOT NULL,
    model text,
    streamed integer NOT NULL,
    mode text NOT NULL,
    response_id text,
    started_at double precision NOT NULL,
    first_event_at double precision,
    last_event_at double precision,
    decided_at double precision,
    terminal_event text,
    terminal_reason text,
    outcome text,
    reason text,
    findings text,
    codes text,
    latch text,
    policy text,
    events bigint,
    bytes_in bigint,
    bytes_held bigint,
    bytes_injected bigint,
    sha256 text,
    delivery text NOT NULL,
    requested_model text
);
CREATE INDEX turns_by_tenant ON turns (left(tenant, 100), turn_id);
CREATE INDEX turns_by_outcome ON turns (outcome, turn_id);
CREATE INDEX turns_by_response ON turns (left(response_id, 100), turn_id) WHERE response_id IS NOT NULL;
CREATE INDEX turns_unfinished ON turns (turn_id) WHERE outcome IS NULL;
CREATE INDEX turns_unconfirmed ON turns (turn_id) WHERE delivery = 'pending';
CREATE TABLE calls (
    turn_id text COLLATE "C" NOT NULL,
    choice bigint NOT NULL,
    slot text COLLATE "C" NOT NULL,
    call_id text,
    tool text,
    kind text NOT NULL,
    runs_on text NOT NULL,
    fragments bigint NOT NULL,
    argument_bytes bigint NOT NULL,
    argument_hmac text,
    parse text NOT NULL,
    "schema" text NOT NULL,
    schema_digest text,
    first_event_at double precision,
    last_event_at double precision,
    terminal_event text,
    state text NOT NULL
);
CREATE UNIQUE INDEX calls_by_key ON calls (turn_id, choice, md5(slot));
CREATE INDEX calls_by_tool ON calls (left(tool, 100), turn_id);
CREATE TABLE latches (
    id text COLLATE "C" PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('quarantine_turn', 'quarantine_response', 'disable_tool', 'stop_tenant',
        'stop_upstream', 'stop_model', 'stop_all')),
    turn_id text,
    response_id text,
    tool text,
    tenant text,
    upstream text,
    model text,
    route text,
    created_at double precision NOT NULL,
    lifted_at double precision,
    reason text NOT NULL CHECK (reason <> ''),
    actor text NOT NULL CHECK (actor <> ''),
    expires_at double precision,
    lifted_by text,
    lift_reason text,
    turns text,
    calls text,
    CHECK ((kind = 'quarantine_turn') = (turn_id IS NOT NULL)),
    CHECK ((kind = 'quarantine_response') = (response_id IS NOT NULL)),
    CHECK ((kind = 'disable_tool') = (tool IS NOT NULL)),
    CHECK (kind <> 'stop_tenant' OR tenant IS NOT NULL),
    CHECK (kind <> 'stop_upstream' OR upstream IS NOT NULL),
    CHECK (kind <> 'stop_model' OR model IS NOT NULL),
    CHECK (kind <> 'stop_all' OR coalesce(tenant, upstream, model, route) IS NULL)
);
CREATE INDEX latches_standing ON latches (kind) WHERE lifted_at IS NULL;
CREATE TABLE audit (
    seq bigint PRIMARY KEY,
    at double precision NOT NULL,
    actor text NOT NULL,
    token_id text NOT NULL,
    role text NOT NULL,
    peer text NOT NULL,
    method text NOT NULL,
    path text NOT NULL,
    status bigint NOT NULL,
    code text,
    latch text,
    idempotency_key text,
    request_sha256 text
);
CREATE INDEX audit_by_actor ON audit (actor, seq);
CREATE UNIQUE INDEX audit_by_key ON audit (actor, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE TABLE claims (
    turn_id text COLLATE "C" NOT NULL,
    choice bigint NOT NULL,
    slot text COLLATE "C" NOT NULL,
    key text NOT NULL,
    seq bigint NOT NULL,
    at double precision NOT NULL
);
CREATE UNIQUE INDEX claims_by_key ON claims (turn_id, choice, md5(slot));
INSERT INTO ledger_schema VALUES (2);

-- name: find_tables
-- Which of the ledger's tables there are, to tell an empty schema from a ledger and from somebody else's.
SELECT coalesce(array_agg(relname::text), '{}') FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')
    AND relname IN ('ledger_schema', 'entries', 'turns', 'calls', 'latches', 'audit', 'claims', 'writers');

-- name: read_version
-- Of the tables.
SELECT version FROM ledger_schema;

-- name: check_session
-- What this connection may rely on; `on` is restored where somebody turned off that a commit waits for the disk.
SELECT current_setting('server_encoding'), current_setting('fsync'), current_schema(), current_user,
    current_schema()::regnamespace::oid::bigint,
    set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
        ELSE current_setting('synchronous_commit') END, false),
    set_config('statement_timeout', %(patience_ms)s, false), set_config('lock_timeout', %(lock_ms)s, false),
    set_config('idle_in_transaction_session_timeout', %(patience_ms)s, false),
    set_config('tcp_keepalives_idle', '3', false), set_config('tcp_keepalives_interval', '1', false),
    set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', %(patience_ms)s, false);

-- name: begin
-- Each statement sees what was committed when it began, whatever the server's default is; see `lock_chain`.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;

-- name: lock_chain
-- One writer at a time, to the end of its transaction.
SELECT pg_advisory_xact_lock(%(key)s);

-- name: register
-- A gate opens the ledger.
INSERT INTO writers (host, generation) VALUES (%(host)s, 0) RETURNING number;

-- name: is_registered
-- Whether nobody has taken this gate for dead.
SELECT true FROM writers WHERE number = %(writer)s;

-- name: hold_writer
-- The lock that says that a gate lives, for as long as its connection does.
SELECT pg_try_advisory_lock(%(key)s);

-- name: take_writer
-- The same lock for the transaction that ends what a gate left; not to be had while it lives.
SELECT pg_try_advisory_xact_lock(%(key)s);

-- name: unregister
-- A gate is gone, and everything that it left is ended.
DELETE FROM writers WHERE number = %(writer)s;

-- name: end_sessions
-- End what is left of this gate's earlier connection, which may hold its locks, or be about to commit.
SELECT pg_terminate_backend(pid, %(wait_ms)s) FROM pg_stat_activity
WHERE application_name = %(application)s AND pid <> pg_backend_pid() AND datname = current_database();

-- name: free_chain
-- End the session that has had the chain for longer than any transaction of ours takes: its gate has stopped in the middle.
SELECT pg_terminate_backend(pg_locks.pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND objid = 0 AND classid = current_schema()::regnamespace::oid
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND xact_start < clock_timestamp() - make_interval(secs => %(age_s)s);

-- name: list_writers
-- The gates, and whether each has its lock: one that has not has lost its connection, or has died.
SELECT number, EXISTS (
    SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND objid = writers.number::oid
        AND classid = current_schema()::regnamespace::oid
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
FROM writers;

-- name: acknowledge
-- This gate's board shows everything up to here.
UPDATE writers SET generation = %(generation)s WHERE number = %(writer)s;

-- name: list_unheard
-- Gates whose boards do not show the change yet.
SELECT host, number FROM writers WHERE generation < %(generation)s AND number <> %(writer)s ORDER BY number;

-- name: notify
-- Wake the other gates; never for a turn, because the server lets notifying transactions commit one by one.
SELECT pg_notify(%(channel)s, %(seq)s::text);

-- name: read_generation
-- The number of the last change of a latch.
SELECT coalesce(max(seq), 0) FROM entries WHERE kind IN ('latched', 'lifted');

-- name: read_board
-- That number, with what is in force at the same moment.
SELECT told.generation, convert_to(latch.told, 'UTF8') FROM (
    SELECT coalesce(max(seq), 0) AS generation FROM entries WHERE kind IN ('latched', 'lifted')) AS told
LEFT JOIN (SELECT json_build_object('id', id, 'kind', kind, 'turn_id', turn_id, 'response_id', response_id, 'tool', tool,
    'tenant', tenant, 'upstream', upstream, 'model', model, 'route', route, 'created_at', created_at,
    'reason', reason, 'actor', actor, 'expires_at', expires_at, 'turns', coalesce(turns, '[]')::json,
    'calls', coalesce(calls, '[]')::json)::text AS told FROM latches WHERE lifted_at IS NULL) AS latch ON true;

-- name: read_head
-- The last entry, to go on with the chain.
SELECT seq, kind, convert_to(payload, 'UTF8'), prev_hash, hash FROM entries ORDER BY seq DESC LIMIT 1;

-- name: read_hash
-- The hash of one entry, to see that the server still has what it said it had.
SELECT hash FROM entries WHERE seq = %(seq)s;

-- name: append_entry
-- Add one entry. Its number is given, never chosen by the server: the chain covers it.
INSERT INTO entries (seq, kind, payload, prev_hash, hash, writer)
VALUES (%(seq)s, %(kind)s, %(payload)s, %(prev_hash)s, %(hash)s, %(writer)s);

-- name: drop_turn
-- A turn and its calls make place for what is said of them now.
WITH told AS (SELECT replace(payload, '\u0000', '\ufffd')::json ->> 'turn_id' AS turn_id FROM entries WHERE seq = %(seq)s),
    gone AS (DELETE FROM calls USING told WHERE calls.turn_id = told.turn_id)
DELETE FROM turns USING told WHERE turns.turn_id = told.turn_id;

-- name: project_turn
-- A turn as held, where its outcome is NULL, or as decided; also used for a withdrawn release.
INSERT INTO turns
SELECT t.turn_id, entries.seq, t.tenant, t.actor, t.route, t.upstream, t.dialect, t.model, t.streamed::integer, t.mode,
    t.response_id, t.started_at, t.first_event_at, t.last_event_at, t.decided_at, t.terminal_event, t.terminal_reason,
    t.outcome, t.reason, t.findings::text, t.codes::text, t.latch, t.policy, t.events, t.bytes_in, t.bytes_held,
    t.bytes_injected, t.sha256, coalesce(t.delivery, 'none'), t.requested_model
FROM entries, json_to_record(replace(entries.payload, '\u0000', '\ufffd')::json) AS t (
    turn_id text, tenant text, actor text, route text, upstream text, dialect text, model text, streamed boolean, mode text,
    response_id text, started_at double precision, first_event_at double precision, last_event_at double precision,
    decided_at double precision, terminal_event text, terminal_reason text, outcome text, reason text, findings json,
    codes json, latch text, policy text, events bigint, bytes_in bigint, bytes_held bigint, bytes_injected bigint,
    sha256 text, delivery text, requested_model text)
WHERE entries.seq = %(seq)s;

-- name: project_calls
-- The calls of a turn as decided.
INSERT INTO calls
SELECT t.turn_id, c.choice, c.slot, c.call_id, c.tool, c.kind, c.runs_on, c.fragments, c.argument_bytes, c.argument_hmac,
    c.parse, c."schema", c.schema_digest, c.first_event_at, c.last_event_at, c.terminal_event, c.state
FROM entries,
    json_to_record(replace(entries.payload, '\u0000', '\ufffd')::json) AS t (turn_id text, calls json),
    json_to_recordset(t.calls) AS c (
        choice bigint, slot text, call_id text, tool text, kind text, runs_on text, fragments bigint, argument_bytes bigint,
        argument_hmac text, parse text, "schema" text, schema_digest text, first_event_at double precision,
        last_event_at double precision, terminal_event text, state text)
WHERE entries.seq = %(seq)s;

-- name: project_delivery
-- What became of the bytes of a released turn.
UPDATE turns SET delivery = t.delivery FROM entries, json_to_record(entries.payload::json) AS t (turn_id text, delivery text)
WHERE entries.seq = %(seq)s AND turns.turn_id = t.turn_id;

-- name: project_claimed
-- Somebody may run a call, and nobody else.
INSERT INTO claims
SELECT t.turn_id, t.choice, t.slot, t.key, entries.seq, t.at
FROM entries, json_to_record(replace(entries.payload, '\u0000', '\ufffd')::json) AS t (
    turn_id text, choice bigint, slot text, key text, at double precision)
WHERE entries.seq = %(seq)s;

-- name: project_audited
-- One request to the operator's interface; `audit` is null where the gate acts by itself.
INSERT INTO audit
SELECT entries.seq, a.at, a.actor, a.token_id, a.role, a.peer, a.method, a.path, a.status, a.code, a.latch,
    a.idempotency_key, a.request_sha256
FROM entries, json_to_record(replace(entries.payload, '\u0000', '\ufffd')::json) AS t (audit json),
    json_to_record(coalesce(t.audit, '{}')) AS a (
        at double precision, actor text, token_id text, role text, peer text, method text, path text, status bigint,
        code text, latch text, idempotency_key text, request_sha256 text)
WHERE entries.seq = %(seq)s AND a.at IS NOT NULL;

-- name: project_latched
-- A latch is in force from here on.
INSERT INTO latches (id, kind, turn_id, response_id, tool, tenant, upstream, model, route, created_at, reason, actor,
    expires_at, turns, calls)
SELECT l.id, l.kind, l.turn_id, l.response_id, l.tool, l.tenant, l.upstream, l.model, l.route, l.created_at, l.reason,
    l.actor, l.expires_at, l.turns::text, l.calls::text
FROM entries, json_to_record(replace(entries.payload, '\u0000', '\ufffd')::json -> 'latch') AS l (
    id text, kind text, turn_id text, response_id text, tool text, tenant text, upstream text, model text, route text,
    created_at double precision, reason text, actor text, expires_at double precision, turns json, calls json)
WHERE entries.seq = %(seq)s;

-- name: project_lifted
-- A latch is over.
UPDATE latches SET lifted_at = l.lifted_at, lifted_by = l.lifted_by, lift_reason = l.lift_reason
FROM entries, json_to_record(replace(entries.payload, '\u0000', '\ufffd')::json -> 'lift') AS l (
    id text, lifted_at double precision, lifted_by text, lift_reason text)
WHERE entries.seq = %(seq)s AND latches.id = l.id;

-- name: read_claimed_call
-- A call with its turn's last word, and the claim on it, if there is one.
SELECT turns.outcome, calls.runs_on, convert_to(entries.payload, 'UTF8'), claims.key, claims.seq
FROM json_to_record(replace(%(payload)s, '\u0000', '\ufffd')::json) AS t (turn_id text, choice bigint, slot text)
    JOIN calls ON (calls.turn_id, calls.choice, calls.slot) = (t.turn_id, t.choice, t.slot)
    JOIN turns ON turns.turn_id = calls.turn_id JOIN entries USING (seq)
    LEFT JOIN claims ON (claims.turn_id, claims.choice, claims.slot) = (calls.turn_id, calls.choice, calls.slot);

-- name: read_turn_state
-- How far a turn has come: no row, outcome NULL (held), or its terminal outcome.
SELECT outcome, delivery FROM turns WHERE turn_id = %(turn_id)s;

-- name: read_turn_states
-- The same of many turns.
SELECT turn_id, outcome, delivery FROM turns WHERE turn_id = ANY (%(turn_ids)s);

-- name: find_stop
-- The oldest standing latch that covers a turn, by the turn's own payload.
SELECT latches.id, latches.kind
FROM latches, json_to_record(replace(%(payload)s, '\u0000', '\ufffd')::json) AS t (
    turn_id text, response_id text, tenant text, upstream text, model text, requested_model text, route text, calls json)
WHERE lifted_at IS NULL
    AND (latches.turn_id IS NULL OR latches.turn_id = t.turn_id)
    AND (latches.response_id IS NULL OR latches.response_id = t.response_id)
    AND (latches.tenant IS NULL OR latches.tenant = t.tenant)
    AND (latches.upstream IS NULL OR latches.upstream = t.upstream)
    AND (latches.model IS NULL OR latches.model IN (t.model, t.requested_model))
    AND (latches.route IS NULL OR latches.route = t.route)
    AND (latches.tool IS NULL OR latches.tool IN (SELECT value ->> 'tool' FROM json_array_elements(t.calls) UNION ALL
        SELECT inside.value FROM json_array_elements(t.calls) AS call (value),
            json_array_elements_text(coalesce(call.value -> 'inside', '[]')) AS inside (value)))
ORDER BY latches.created_at, latches.id LIMIT 1;

-- name: find_delivery
-- How the calls of the same provider response were decided before: for a turn that only fetches it, in whatever turn brought
-- calls of it; for the turn that made it, in one that fetched it meanwhile. A response that was still being made decides
-- nothing; a turn that ended before it could say what it held decides all. Of a response that hands calls over several times,
-- only turns with the same calls count. Some servers give every response the same id: the index has the turn's id too, so
-- that a turn that made its response looks at newer turns only.
SELECT turns.outcome, turns.turn_id
FROM turns, json_to_record(replace(%(payload)s, '\u0000', '\ufffd')::json) AS t (
    turn_id text, response_id text, upstream text, fetched boolean, staged boolean, calls json)
WHERE (left(turns.response_id, 100), turns.response_id) = (left(t.response_id, 100), t.response_id)
    AND turns.upstream = t.upstream
    AND turns.turn_id <> t.turn_id
    AND turns.turn_id > CASE WHEN t.fetched THEN '' ELSE t.turn_id END
    AND CASE WHEN t.fetched
        THEN turns.outcome IN ('released', 'blocked', 'cancelled')
            AND coalesce(turns.terminal_reason, '') NOT IN ('queued', 'in_progress')
            AND (turns.reason IN ('restart', 'shutdown', 'gate_failure') OR EXISTS
                (SELECT 1 FROM calls WHERE calls.turn_id = turns.turn_id AND calls.runs_on = 'agent'))
        ELSE turns.outcome = 'released'
            AND (SELECT replace(payload, '\u0000', '\ufffd')::json ->> 'fetched' = 'true' FROM entries
                WHERE entries.seq = turns.seq)
        END
    AND CASE WHEN t.staged
        THEN turns.reason IN ('restart', 'shutdown', 'gate_failure') OR EXISTS
            (SELECT 1 FROM calls JOIN json_array_elements(t.calls) AS mine ON calls.call_id = mine.value ->> 'call_id'
            WHERE calls.turn_id = turns.turn_id AND calls.runs_on = 'agent')
        ELSE true END
LIMIT 1;

-- name: check_release
-- All that can stand against a release, in one statement: the turn's own end, a stop, an earlier delivery.
SELECT (SELECT outcome FROM turns WHERE turn_id = replace(%(payload)s, '\u0000', '\ufffd')::json ->> 'turn_id'),
    stop.id, stop.kind, EXISTS @find_delivery
FROM (SELECT 1) AS one LEFT JOIN @find_stop AS stop ON true;

-- name: check_releases
-- The same for all releases of a group, in their order; the code has each ask with its own payload.
SELECT answer.* FROM unnest(%(payloads)s::text[]) WITH ORDINALITY AS asked (payload, place), LATERAL @check_release AS answer
ORDER BY asked.place;

-- name: find_ender
-- The latch that ended a turn when it was created.
SELECT id, kind FROM latches
WHERE EXISTS (SELECT 1 FROM json_array_elements_text(coalesce(latches.turns, '[]')::json) AS one WHERE one.value = %(turn_id)s)
LIMIT 1;

-- name: list_latches
-- Latches, newest first, by page; with `standing` only those in force.
SELECT convert_to(json_build_object('id', id, 'kind', kind, 'turn_id', turn_id, 'response_id', response_id, 'tool', tool,
    'tenant', tenant, 'upstream', upstream, 'model', model, 'route', route, 'created_at', created_at,
    'reason', reason, 'actor', actor, 'expires_at', expires_at, 'lifted_at', lifted_at, 'lifted_by', lifted_by,
    'lift_reason', lift_reason, 'turns', coalesce(turns, '[]')::json, 'calls', coalesce(calls, '[]')::json)::text, 'UTF8')
FROM latches
WHERE (%(id)s::text IS NULL OR id = %(id)s) AND (%(before)s::text IS NULL OR id < %(before)s)
    AND (NOT %(standing)s OR lifted_at IS NULL)
ORDER BY id DESC LIMIT %(limit)s;

-- name: list_audit
-- The audit's rows, newest first, by page; with `changes` only what was meant to change something.
SELECT seq, at, actor, token_id, role, peer, method, path, status, code, latch, idempotency_key, request_sha256,
    coalesce(told -> 'audit' ->> 'reason', told -> 'latch' ->> 'reason', told -> 'lift' ->> 'lift_reason')
FROM audit JOIN entries USING (seq), LATERAL (SELECT replace(payload, '\u0000', '\ufffd')::json AS told) AS entry
WHERE (%(before)s::bigint IS NULL OR seq < %(before)s) AND (%(actor)s::text IS NULL OR actor = %(actor)s)
    AND (%(latch)s::text IS NULL OR latch = %(latch)s) AND (NOT %(changes)s OR method <> 'GET')
ORDER BY seq DESC LIMIT %(limit)s;

-- name: find_keyed_request
-- The write that an actor sent under an idempotency key.
SELECT seq, at, actor, token_id, role, peer, method, path, status, code, latch, idempotency_key, request_sha256,
    coalesce(told -> 'audit' ->> 'reason', told -> 'latch' ->> 'reason', told -> 'lift' ->> 'lift_reason')
FROM audit JOIN entries USING (seq), LATERAL (SELECT replace(payload, '\u0000', '\ufffd')::json AS told) AS entry
WHERE actor = %(actor)s AND idempotency_key = %(key)s;

-- name: list_calls
-- Calls with their turns, newest turn first, by page: each filter that is NULL does not narrow.
SELECT calls.turn_id, choice, slot, call_id, tool, kind, runs_on, argument_bytes, state, tenant, upstream, route, model,
    outcome, reason, latch, delivery, started_at, decided_at
FROM calls JOIN turns USING (turn_id)
WHERE (%(before)s::text IS NULL OR calls.turn_id < %(before)s
        OR (calls.turn_id = %(before)s AND (choice, slot) > (%(choice)s::bigint, %(slot)s::text)))
    AND (%(turn_id)s::text IS NULL OR calls.turn_id = %(turn_id)s)
    AND (%(tool)s::text IS NULL OR (left(tool, 100), tool) = (left(%(tool)s, 100), %(tool)s))
    AND (%(call_id)s::text IS NULL OR call_id = %(call_id)s)
    AND (%(state)s::text IS NULL OR state = %(state)s)
    AND (%(tenant)s::text IS NULL OR (left(tenant, 100), tenant) = (left(%(tenant)s, 100), %(tenant)s))
    AND (%(upstream)s::text IS NULL OR upstream = %(upstream)s)
    AND (%(outcome)s::text IS NULL OR outcome = %(outcome)s)
    AND (%(latch)s::text IS NULL OR latch = %(latch)s)
ORDER BY calls.turn_id DESC, choice, slot LIMIT %(limit)s;

-- name: list_unfinished
-- Turns that one gate held and never decided.
SELECT convert_to(entries.payload, 'UTF8') FROM turns JOIN entries USING (seq)
WHERE turns.outcome IS NULL AND entries.writer = %(writer)s ORDER BY turn_id LIMIT %(limit)s;

-- name: list_unconfirmed
-- Turns that one gate released without confirming that the bytes were sent.
SELECT turn_id FROM turns JOIN entries USING (seq)
WHERE turns.delivery = 'pending' AND entries.writer = %(writer)s ORDER BY turn_id LIMIT %(limit)s;

-- name: read_last_key_id
-- Which HMAC key the ledger was last opened with.
SELECT payload::json ->> 'key_id' FROM entries WHERE kind = 'opened' ORDER BY seq DESC LIMIT 1;

-- name: list_turns
-- Newest first, by page: each filter that is NULL does not narrow.
SELECT convert_to(entries.payload, 'UTF8'), turns.delivery FROM turns JOIN entries USING (seq)
WHERE (%(before)s::text IS NULL OR turn_id < %(before)s)
    AND (%(tenant)s::text IS NULL OR (left(tenant, 100), tenant) = (left(%(tenant)s, 100), %(tenant)s))
    AND (%(upstream)s::text IS NULL OR upstream = %(upstream)s)
    AND (%(outcome)s::text IS NULL OR outcome = %(outcome)s)
    AND (%(reason)s::text IS NULL OR reason = %(reason)s)
    AND (%(response_id)s::text IS NULL OR (left(response_id, 100), response_id) = (left(%(response_id)s, 100), %(response_id)s))
    AND (%(tool)s::text IS NULL OR EXISTS
        (SELECT 1 FROM calls WHERE calls.turn_id = turns.turn_id
            AND (left(calls.tool, 100), calls.tool) = (left(%(tool)s, 100), %(tool)s)))
ORDER BY turn_id DESC LIMIT %(limit)s;

-- name: get_turn
-- One turn as last recorded.
SELECT convert_to(entries.payload, 'UTF8'), turns.delivery FROM turns JOIN entries USING (seq) WHERE turn_id = %(turn_id)s;

-- name: get_delivery_time
-- When the last word on a released turn's bytes was known. It follows the release closely, so few entries are looked at.
SELECT (payload::json ->> 'at')::double precision FROM entries
WHERE seq > (SELECT seq FROM turns WHERE turn_id = %(turn_id)s AND delivery IN ('sent', 'unknown'))
    AND CASE kind WHEN 'delivery' THEN payload::json ->> 'turn_id' = %(turn_id)s ELSE false END
ORDER BY seq LIMIT 1;

-- name: list_claims
-- The calls of a turn that somebody has claimed.
SELECT choice, slot, at FROM claims WHERE turn_id = %(turn_id)s ORDER BY at, choice, slot;

-- name: count_decided
-- Turns by how they ended, in steps of `step` seconds since `since`. No turn that was asked for before `first` is looked at.
SELECT floor((decided_at - %(since)s) / %(step)s)::integer, outcome, reason, count(*) FROM turns
WHERE turn_id >= %(first)s AND decided_at >= %(since)s AND decided_at < %(until)s AND outcome <> 'passed'
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;

-- name: measure_waits
-- How long turns waited for the provider's first event, and from their first call to the decision: the number of them and
-- the 50th and the 99th percentile, by nearest rank, in the same steps.
WITH waits (step, what, seconds) AS (
    SELECT floor((decided_at - %(since)s) / %(step)s)::integer, 'first_event', first_event_at - started_at FROM turns
    WHERE turn_id >= %(first)s AND decided_at >= %(since)s AND decided_at < %(until)s
    UNION ALL
    SELECT floor((decided_at - %(since)s) / %(step)s)::integer, 'held', decided_at -
        (SELECT min(calls.first_event_at) FROM calls WHERE calls.turn_id = turns.turn_id AND runs_on = 'agent') FROM turns
    WHERE turn_id >= %(first)s AND decided_at >= %(since)s AND decided_at < %(until)s AND mode = 'enforce'
        AND outcome <> 'passed'
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
SELECT seq, kind, convert_to(payload, 'UTF8'), prev_hash, hash FROM entries ORDER BY seq;
