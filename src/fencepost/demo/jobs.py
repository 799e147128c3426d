"""The demo's three tasks: what a user's program looks like. ``fencepost worker fencepost.demo.jobs:app`` runs them."""

from __future__ import annotations

import html
import os
import smtplib
from email.message import EmailMessage
from pathlib import Path

import aiohttp

from fencepost import config
from fencepost.app import App
from fencepost.domain.control import RateLimited
from fencepost.domain.policy import RetryPolicy
from fencepost.tasks.context import JobContext

CLIENT_TIMEOUT_S = 3.0
IMPATIENT = RetryPolicy(max_attempts=8, backoff="500ms, 1s, 2s, 4s")

app = App(config.from_env().dsn, name="demo")


@app.task("demo.register", queue="webhooks", retry=IMPATIENT, timeout="20s")
async def register(job: JobContext, record: str, data: dict[str, str], url: str) -> int:
    """Register one record with the provider: the key is the same in every attempt, so the provider records it once."""
    headers = {"Idempotency-Key": job.idempotency_key("register", record)}
    timeout = aiohttp.ClientTimeout(total=CLIENT_TIMEOUT_S)
    with job.step("post"):
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(url, json={"record": record, "data": data}, headers=headers) as response,
        ):
            if response.status == 429:
                raise RateLimited(response.headers.get("Retry-After"), "the provider is busy")
            response.raise_for_status()
            return int((await response.json())["registration"])


@app.task("demo.announce", queue="mail", retry=IMPATIENT, timeout="20s")
def announce(job: JobContext, record: str, title: str, host: str, port: int) -> str:
    """Mail the record's manager. A second physical mail carries the same Message-ID, so that the reader sees one."""
    message = EmailMessage()
    message["Message-ID"] = f"<{job.idempotency_key('announce', record)}@demo.invalid>"
    message["From"] = "registry@demo.invalid"
    message["To"] = f"manager+{record.lower().replace(' ', '-')[:40]}@demo.invalid"
    message["Subject"] = f"{title} is being registered"
    message.set_content(f"{title} ({record}) was imported and is being registered.\n")
    with job.step("send"), smtplib.SMTP(host, port, timeout=5) as smtp:
        smtp.send_message(message)
    return str(message["Message-ID"])


@app.task("demo.render", queue="reports", retry=IMPATIENT, timeout="30s", executor="process")
def render(record: str, data: dict[str, str], folder: str) -> str:
    """Render the record's page. Written beside its place and moved there at once: half a page is never seen."""
    path = Path(folder) / f"{file_name(record)}.html"
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(page(record, data), encoding="utf-8")
    part.replace(path)
    return path.name


def file_name(record: str) -> str:
    """A name that any file system takes and that differs where the record differs."""
    return "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in record)[:180]


def page(record: str, data: dict[str, str]) -> str:
    """One record as a page, with a dot on the map where it has a place."""
    lines = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in data.items())
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(record)}</title>"
        f"<h1>{html.escape(data.get('name') or record)}</h1>{_dot(data)}<table>{lines}</table></html>\n"
    )


def _dot(data: dict[str, str]) -> str:
    try:
        x, y = float(data["longitude"]) + 180.0, 90.0 - float(data["latitude"])
    except (KeyError, ValueError):
        return ""
    return (
        '<svg viewBox="0 0 360 180" width=360 height=180 role=img aria-label="place on the world">'
        f'<rect width=360 height=180 fill="#dfe9f2"/><circle cx="{x:.2f}" cy="{y:.2f}" r=3 fill="#b3261e"/></svg>'
    )
