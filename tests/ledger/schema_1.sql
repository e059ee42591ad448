CREATE TABLE entries (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('opened', 'held', 'decided', 'withdrawn', 'delivery')),
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
    delivery TEXT NOT NULL
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
-- An operator's standing stop. A column that is NULL does not narrow it, so a latch covers a turn when all its
-- other columns match; the checks demand what each kind is about.
CREATE TABLE latches (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN
        ('quarantine_turn', 'quarantine_response', 'disable_tool', 'stop_tenant', 'stop_all')),
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
    CHECK ((kind = 'quarantine_turn') = (turn_id IS NOT NULL)),
    CHECK ((kind = 'quarantine_response') = (response_id IS NOT NULL)),
    CHECK ((kind = 'disable_tool') = (tool IS NOT NULL)),
    CHECK (kind <> 'stop_tenant' OR tenant IS NOT NULL),
    CHECK (kind <> 'stop_all' OR coalesce(tenant, upstream, model, route) IS NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX latches_standing ON latches (kind) WHERE lifted_at IS NULL;
