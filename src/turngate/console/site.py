"""The console's application, beside the interface in the same listener.

Each request goes the same way: host, session, role, and for a post its origin and form token; then the interface's own handler,
its row in the audit, and a page. What an open page asks for by itself, over and over, has no row: opening the page had one.
"""

from __future__ import annotations

import dataclasses
import re
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import structlog
from starlette.types import Receive, Scope, Send

from turngate.console import acts
from turngate.console.assets import ASSETS
from turngate.console.forms import (
    BASE,
    SESSION,
    VISITOR,
    Seal,
    check_origin,
    cookie,
    header,
    is_encrypted,
    read_fields,
    read_form,
    set_cookie,
)
from turngate.console.pages import Pages, Visit
from turngate.console.rendering import render
from turngate.console.sessions import Sessions
from turngate.errors import LedgerError
from turngate.ledger.audit import AuditNote
from turngate.operator.auth import PATH_LIMIT, Caller, Doorkeeper, peer_of, require, stranger_note
from turngate.operator.control import Control
from turngate.operator.handlers import Ask, Handlers
from turngate.operator.messages import LatchSet, NewLatch, NoQuery
from turngate.operator.problem import ProblemError
from turngate.operator.tokens import Role
from turngate.proxy.front_connection import front_of
from turngate.proxy.incoming import ClientGoneError
from turngate.proxy.reply import Headers

POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; "
    b"frame-ancestors 'none'; base-uri 'none'"
)
ALWAYS: Final[Headers] = [
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    # Not `no-referrer`: under it a browser says `Origin: null` with a form of this very site (Fetch, section 3.2).
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
NO_STORE: Final = (b"cache-control", b"no-store")
KEEP: Final = (b"cache-control", b"private, max-age=86400, immutable")
HTML: Final = "text/html; charset=utf-8"

ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

_log = structlog.get_logger("turngate")


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """One path. `name` is the method's; `open` needs no session, and `recorded` pages have their row in the audit.

    What is only shown has a `template`, whole or, for the part of a page that moves, the fragment alone.
    """

    method: str
    pattern: str
    name: str
    role: Role = Role.VIEWER
    open: bool = False
    recorded: bool = True
    template: str | None = None


def _shown(name: str, pattern: str | None = None) -> Page:
    return Page("GET", name if pattern is None else pattern, name, template=f"{name}.html")


def _moving(name: str, pattern: str) -> Page:
    return Page("GET", f"live/{pattern}", f"live_{name}", recorded=False, template=f"live_{name}.html")


_TURN: Final = "turns/(?P<turn_id>[^/]{1,64})"

PAGES: Final = (
    _shown("turns", ""),
    _shown("turn", _TURN),
    _shown("approvals"),
    _shown("latches"),
    _shown("latch", "latches/(?P<latch_id>[^/]{1,64})"),
    _shown("figures"),
    _shown("audit"),
    _shown("status"),
    _moving("turns", "turns"),
    _moving("turn", _TURN),
    _moving("approvals", "approvals"),
    _moving("figures", "figures"),
    Page("POST", "review", "review", Role.OPERATOR),
    Page("POST", "confirm", "confirm", Role.OPERATOR),
    Page("GET", "login", "show_login", open=True, recorded=False),
    Page("POST", "login", "login", open=True),
    Page("POST", "logout", "logout"),
    Page("GET", "static/(?P<name>[a-z.]+)", "static", open=True, recorded=False),
)


@dataclasses.dataclass(slots=True)
class Reply:
    """What is answered."""

    body: bytes = b""
    status: int = 200
    media_type: str = HTML
    headers: Headers = dataclasses.field(default_factory=lambda: [NO_STORE])


class Console:
    """The ASGI application below `/console/`."""

    def __init__(self, control: Control, doorkeeper: Doorkeeper) -> None:
        self._control = control
        self._doorkeeper = doorkeeper
        self._handlers = Handlers(control)
        self._pages = Pages(control, self._handlers)
        self._sessions = Sessions(doorkeeper.still_admits)
        self._seal = Seal()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        visit = Visit(scope)
        try:
            reply = await self._serve(visit, receive)
        except ClientGoneError:
            front_of(scope).abort()
            return
        except ProblemError as problem:
            reply = await self._refuse(visit, problem)
        except LedgerError as error:
            _log.error("ledger_unavailable", operation="console", error=str(error))
            message = "The ledger does not answer. While it does not, no tool call is released. Try again."
            reply = await self._refuse(visit, ProblemError("ledger_unavailable", message))
        except Exception as error:  # noqa: BLE001 -- its text may quote what was asked
            frames = traceback.extract_tb(error.__traceback__)
            where = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-8:]]
            _log.error("console_failed", error=type(error).__name__, where=where)
            reply = await self._refuse(
                visit, ProblemError("internal", "turngate failed while it handled this request.")
            )
        await _send(send, reply)

    async def _serve(self, visit: Visit, receive: Receive) -> Reply:
        scope = visit.scope
        self._doorkeeper.check_host(scope)
        self._recognise(visit)
        page = _find(visit)
        if visit.ask is not None:
            visit.ask.names = visit.names
            require(visit.ask.caller, page.role)
        elif not page.open:
            return _to_login(scope)
        if page.method == "POST":
            check_origin(scope)
            visit.fields = await read_form(scope, receive)
            name = VISITOR if page.open else SESSION
            self._seal.check(cookie(scope, name), visit.fields.pop("csrf", ""))
        elif page.name != "static":
            visit.fields = read_fields(scope["query_string"])
        if page.template is None:
            reply: Reply = await getattr(self, page.name)(visit)
        else:
            reply = await self._page(visit, page.template, **await getattr(self._pages, page.name)(visit))
        if page.recorded and visit.ask is not None and not visit.ask.recorded:
            self._audit(visit.ask.note(reply.status))
        return reply

    def _recognise(self, visit: Visit) -> None:
        scope = visit.scope
        visit.secret = cookie(scope, SESSION)
        visit.session = self._sessions.find(visit.secret)
        if visit.session is not None:
            token = visit.session.token
            caller = Caller(token.name, token.id, token.role, peer_of(scope))
            visit.ask = Ask(caller, scope["method"], scope["path"][:PATH_LIMIT], {}, NoQuery())

    # Changes.

    async def review(self, visit: Visit) -> Reply:
        """The first click: show what the second one will do."""
        assert visit.session is not None
        reviewed = acts.review(visit.fields)
        ahead = (
            await acts.preview(self._control, reviewed.body) if isinstance(reviewed.body, NewLatch) else None
        )
        ticket = visit.session.keep(reviewed)
        return await self._page(visit, "review.html", reviewed=reviewed, ahead=ahead, ticket=ticket)

    async def confirm(self, visit: Visit) -> Reply:
        """The second click: do it."""
        assert visit.session is not None
        assert visit.ask is not None
        ticket = visit.fields.get("ticket", "")
        reviewed = visit.session.pending.get(ticket)
        if reviewed is None:
            raise ProblemError("not_found", "Nothing waits to be confirmed here. Start again.")
        reviewed.ask(visit.ask, ticket)
        done = await getattr(self._handlers, reviewed.act.operation)(visit.ask)
        if isinstance(done, LatchSet):
            return _redirect(f"latches/{done.latch.id}")
        return _redirect(f"{'turns' if reviewed.act.named == 'turn_id' else 'latches'}/{reviewed.name}")

    # Coming and going.

    async def show_login(self, visit: Visit) -> Reply:
        """The form for a token."""
        if self._sessions.find(cookie(visit.scope, SESSION)) is not None:
            return _redirect("")
        return self._login_form(visit)

    async def login(self, visit: Visit) -> Reply:
        """Open a session for a token; a wrong one counts as it does at the interface."""
        scope = visit.scope
        peer = peer_of(scope)
        try:
            token = self._doorkeeper.admit_secret(visit.fields.get("token", "").strip(), peer)
        except ProblemError as problem:
            self._note_refused(visit, problem)
            return self._login_form(visit, problem)
        caller = Caller(token.name, token.id, token.role, peer)
        visit.ask = Ask(caller, scope["method"], scope["path"], {}, NoQuery())
        secure = is_encrypted(scope)
        reply = _redirect("")
        reply.headers += [
            set_cookie(SESSION, self._sessions.open(token), secure=secure),
            set_cookie(VISITOR, "", secure=secure),
        ]
        return reply

    async def logout(self, visit: Visit) -> Reply:
        """End the session, here and in the browser."""
        assert visit.secret is not None
        self._sessions.close(visit.secret)
        reply = _redirect("login")
        reply.headers.append(set_cookie(SESSION, "", secure=is_encrypted(visit.scope)))
        return reply

    async def static(self, visit: Visit) -> Reply:
        """A file of the console's own."""
        asset = ASSETS.get(visit.names["name"])
        if asset is None:
            raise ProblemError("not_found", "There is no such file.")
        return Reply(asset.content, media_type=asset.media_type, headers=[KEEP])

    def _login_form(self, visit: Visit, problem: ProblemError | None = None) -> Reply:
        fresh = self._seal.fresh()
        wait = [each for each in problem.headers if each[0] == b"retry-after"] if problem is not None else []
        return Reply(
            render("login.html", csrf=self._seal.of(fresh), me=None, problem=problem),
            status=200 if problem is None else problem.status,
            headers=[NO_STORE, *wait, set_cookie(VISITOR, fresh, secure=is_encrypted(visit.scope))],
        )

    # Parts of pages.

    async def _page(self, visit: Visit, template: str, *, status: int = 200, **context: Any) -> Reply:
        me = visit.ask.caller if visit.ask is not None else None
        csrf = self._seal.of(visit.secret) if me is not None and visit.secret is not None else ""
        common: dict[str, Any] = {"me": me, "csrf": csrf, "may_act": visit.may_act}
        if me is not None:
            common["standing"] = len(self._control.ledger.latches)
            common["asked"] = len(await self._pages.waiting())
        return Reply(render(template, **{**common, **context}), status=status)

    async def _refuse(self, visit: Visit, problem: ProblemError) -> Reply:
        self._note_refused(visit, problem)
        reply = await self._page(visit, "problem.html", status=problem.status, problem=problem)
        reply.headers = [NO_STORE, *problem.headers]
        return reply

    def _note_refused(self, visit: Visit, problem: ProblemError) -> None:
        if visit.ask is not None:
            self._audit(visit.ask.note(problem.status, code=problem.code))
        elif problem.code != "too_many_failures":
            self._audit(stranger_note(visit.scope, problem))

    def _audit(self, note: AuditNote) -> None:
        self._control.ledger.audit(note)


def with_console(interface: ASGIApp, console: Console) -> ASGIApp:
    """Both in one listener. A browser that names no page is shown the console; everything else is the interface's."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(BASE):
            await console(scope, receive, send)
        elif scope["type"] == "http" and _is_browser(scope) and scope["path"] in ("/", BASE.rstrip("/")):
            await _send(send, _redirect(""))
        else:
            await interface(scope, receive, send)

    return serve


def _is_browser(scope: Scope) -> bool:
    wants_page = "text/html" in (header(scope, b"accept") or "")
    return wants_page and scope["method"] == "GET" and header(scope, b"authorization") is None


def _find(visit: Visit) -> Page:
    path = visit.scope["path"].removeprefix(BASE)
    allowed = []
    for page in PAGES:
        if match := re.fullmatch(page.pattern, path):
            if page.method == visit.scope["method"]:
                visit.names = match.groupdict()
                return page
            allowed.append(page.method)
    if allowed:
        allow = (b"allow", ", ".join(sorted(allowed)).encode())
        raise ProblemError("method_not_allowed", "This page takes another method.", headers=[allow])
    raise ProblemError("not_found", "There is no such page.")


def _to_login(scope: Scope) -> Reply:
    """Nobody is known: a page goes by a redirect, a fragment takes its page along by htmx's own."""
    if header(scope, b"hx-request") is not None:
        return Reply(status=401, headers=[NO_STORE, (b"hx-redirect", f"{BASE}login".encode())])
    return _redirect("login")


def _redirect(where: str) -> Reply:
    return Reply(status=303, headers=[NO_STORE, (b"location", (BASE + where).encode())])


async def _send(send: Send, reply: Reply) -> None:
    headers = [
        (b"content-type", reply.media_type.encode()),
        (b"content-length", b"%d" % len(reply.body)),
        *ALWAYS,
        *reply.headers,
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
