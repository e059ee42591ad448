"""Signed checkpoints of a running gate's ledger: for whoever asks, and into a folder from time to time.

A checkpoint is worth something once it is where the ledger's host cannot reach. So it can be fetched by a viewer, and a folder can
be a mount that only takes new files; the log line of each names size and head, for those who send their logs away.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import structlog

from turngate.config import LedgerConfig
from turngate.errors import LedgerError
from turngate.ledger.chain import Checkpoint
from turngate.ledger.checkpoint import keep, signed, signer_at, signing_key_path
from turngate.ledger.reader import LedgerReader
from turngate.operator.control import Control

_log = structlog.get_logger("turngate")


class Checkpoints:
    """Makes and keeps checkpoints."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._config = control.config.ledger
        self._kept: Checkpoint | None = None

    async def note(self) -> str:
        """A checkpoint of this moment, signed."""
        return await self._signed(await self._control.read(LedgerReader.checkpoint))

    @contextlib.asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        """Keep one in the configured folder now and then, if it has changed, while the context is open."""
        folder = self._config.checkpoint_dir
        if folder is None:
            yield
            return
        task = asyncio.create_task(self._keep_each(folder))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _keep_each(self, folder: Path) -> None:
        while True:
            try:
                await self._keep(folder)
            except (LedgerError, OSError) as error:
                _log.error("checkpoint_failed", error=str(error))
            await asyncio.sleep(self._config.checkpoint_every_s)

    async def _keep(self, folder: Path) -> None:
        checkpoint = await self._control.read(LedgerReader.checkpoint)
        if checkpoint == self._kept:
            return
        note = await self._signed(checkpoint)
        await asyncio.to_thread(keep, folder, checkpoint, note)
        self._kept = checkpoint
        _log.info("checkpoint", size=checkpoint.size, head=checkpoint.head)

    async def _signed(self, checkpoint: Checkpoint) -> str:
        return await asyncio.to_thread(lambda: signed(checkpoint, signer_at(signing_key(self._config))))


def signing_key(config: LedgerConfig) -> Path:
    """Where the key is that signs."""
    return config.checkpoint_key or signing_key_path(config.place.files)
