"""A browser, as far as a server can tell: cookies by their path, forms as pages have them, redirects followed by hand."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode

from tests.operator.staged import Staged
from tests.proxy.gated import Answer, Client
from turngate.operator.tokens import Role

BASE = "/console/"


@dataclass
class Form:
    """A form of a page, with what is filled in already."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._select = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag == "form":
            self.forms.append(Form(given["action"] or "", given["method"] or ""))
        elif tag == "input":
            self.forms[-1].fields[given["name"] or ""] = given.get("value") or ""
        elif tag == "button":
            self.forms[-1].buttons.append(given.get("value") or "")
        elif tag == "select":
            self._select = given["name"] or ""
        elif tag == "option" and ("selected" in given or self._select not in self.forms[-1].fields):
            self.forms[-1].fields[self._select] = given.get("value") or ""

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@dataclass
class Seen:
    """An answer, read as a page."""

    answer: Answer
    html: str
    forms: list[Form]
    tags: list[tuple[str, dict[str, str | None]]]
    text: str

    @property
    def status(self) -> int:
        return self.answer.status

    @property
    def location(self) -> str | None:
        return self.answer.header("location")

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.answer.headers if key.lower() == name]

    def form(self, action: str, **having: str) -> Form:
        """The one form with this action and these fields."""
        (found,) = [
            form
            for form in self.forms
            if form.action == BASE + action and having.items() <= form.fields.items()
        ]
        return found


@dataclass
class Browser:
    """One person's."""

    address: str
    tls: ssl.SSLContext | None = None
    cookies: dict[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return self.address.partition("://")[2]

    async def get(self, path: str = BASE, **headers: str) -> Seen:
        return await self.ask("GET", path, b"", headers)

    async def post(self, action: str, fields: dict[str, str], **headers: str) -> Seen:
        sent = {"Origin": self.address, "Content-Type": "application/x-www-form-urlencoded", **headers}
        return await self.ask("POST", BASE + action, urlencode(fields).encode(), sent)

    async def send(self, form: Form, **filled: str) -> Seen:
        """Fill in and send a form."""
        assert form.method == "post"
        return await self.post(form.action.removeprefix(BASE), {**form.fields, **filled})

    async def ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Seen:
        fields = {"Host": self.host, "Accept": "text/html", "Connection": "close", **headers}
        if body:
            fields["Content-Length"] = str(len(body))
        if self.cookies and path.startswith(BASE):
            fields["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
        host, _, port = self.host.rpartition(":")
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(port), ssl=self.tls, server_hostname=None if self.tls is None else host
        )
        try:
            writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body)
            answer = await Client(reader, writer).answer()
        finally:
            writer.transport.abort()
        self._keep(answer)
        page = _Reader()
        html = answer.body.decode()
        page.feed(html if "html" in (answer.header("content-type") or "") else "")
        return Seen(answer, html, page.forms, page.tags, " ".join(" ".join(page.words).split()))

    def _keep(self, answer: Answer) -> None:
        for name, value in answer.headers:
            if name.lower() == "set-cookie":
                key, _, kept = value.partition(";")[0].partition("=")
                if kept:
                    self.cookies[key] = kept
                else:
                    self.cookies.pop(key, None)

    async def log_in(self, token: str | None) -> Seen:
        page = await self.get(f"{BASE}login")
        return await self.send(page.form("login"), token=token or "")


async def logged_in(stage: Staged, role: Role = Role.OPERATOR) -> Browser:
    """A browser of somebody with this role."""
    _, secret = stage.plane.store.create(f"a-{role}", role)
    browser = Browser(stage.plane.address)
    seen = await browser.log_in(secret)
    assert (seen.status, seen.location) == (303, BASE)
    return browser


async def two_clicks(browser: Browser, form: Form, **filled: str) -> Seen:
    """Send a form, and confirm what is shown then."""
    shown = await browser.send(form, **filled)
    assert shown.status == 200, shown.text
    return await browser.send(shown.form("confirm"))
