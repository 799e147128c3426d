"""What secrets look like by themselves: prefixes of vendors, JWT, cards, keys in PEM. Data for `redact`.

Every pattern is linear: no nested quantifiers, no overlapping alternatives behind a repeat, a bound on every length.
Sources: the vendors' own pages on token formats; RFC 7515 (JWT), RFC 7468 (PEM), ISO/IEC 7812 (card numbers).
"""

from __future__ import annotations

import re

_W = r"[A-Za-z0-9]"
_U = r"[A-Za-z0-9_\-]"

_VENDORS = (
    rf"eyJ{_U}{{8,4000}}\.{_U}{{4,16000}}(?:\.{_U}{{0,8000}}){{0,3}}",  # JWT, JWE
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",  # AWS
    rf"(?:sk|pk|rk)_(?:live|test)_{_W}{{10,200}}",  # Stripe
    r"whsec_[A-Za-z0-9+/=]{16,200}",
    rf"sk-(?=[A-Za-z_\-]{{0,240}}[0-9]){_U}{{20,250}}",  # OpenAI, Anthropic and their kin
    r"xox[abeoprs]-[A-Za-z0-9\-]{10,250}",  # Slack
    r"xapp-[A-Za-z0-9\-]{10,250}",
    rf"gh[opsur]_{_W}{{20,255}}",  # GitHub
    r"github_pat_[A-Za-z0-9_]{20,255}",
    rf"gl(?:pat|ptt|dt|rt|cbt|ft|soat|agent)-{_U}{{16,255}}",  # GitLab
    rf"AIza{_U}{{30,60}}",  # Google
    rf"ya29\.{_U}{{20,2000}}",
    rf"GOCSPX-{_U}{{20,60}}",
    rf"SG\.{_U}{{16,80}}\.{_U}{{16,100}}",  # SendGrid
    r"key-[a-f0-9]{32}\b",  # Mailgun
    r"[a-f0-9]{32}-us[0-9]{1,2}\b",  # Mailchimp
    r"SK[a-f0-9]{32}\b",  # Twilio
    rf"npm_{_W}{{30,60}}",
    rf"pypi-{_U}{{30,400}}",
    r"rubygems_[a-f0-9]{40,60}",
    r"do[oprt]_v1_[a-f0-9]{40,80}",  # DigitalOcean
    r"shp(?:at|ca|pa|ss|tka)_[a-fA-F0-9]{20,60}",  # Shopify
    rf"sq0(?:atp|csp|idp)-{_U}{{20,60}}",  # Square
    rf"EAA[A-Z]{_W}{{30,300}}",  # Meta
    rf"[0-9]{{8,10}}:AA{_U}{{30,40}}",  # Telegram
    rf"hf_{_W}{{30,60}}",  # Hugging Face
    r"dapi[a-f0-9]{32}(?:-[0-9])?\b",  # Databricks
    rf"hv[bsr]\.{_U}{{20,300}}",  # HashiCorp Vault
    rf"{_W}{{14}}\.atlasv1\.{_U}{{40,100}}",
    rf"lin_(?:api|oauth)_{_W}{{30,80}}",  # Linear
    rf"ntn_{_W}{{30,80}}",  # Notion
    rf"pat{_W}{{14}}\.[a-f0-9]{{64}}\b",  # Airtable
    rf"dp\.(?:st|pt|ct|sa|scim|audit)\.{_U}{{0,40}}\.?{_W}{{36,60}}",  # Doppler
    r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_\-.]{30,80}",  # PlanetScale
    r"sbp_[a-f0-9]{40}\b",  # Supabase
    r"sntry[su]_[A-Za-z0-9+/=_\-]{40,400}",  # Sentry
    r"NRAK-[A-Z0-9]{20,40}",  # New Relic
    r"gl(?:sa|c)_[A-Za-z0-9_+/=]{30,300}",  # Grafana
    r"AGE-SECRET-KEY-1[A-Z0-9]{40,70}",
    rf"AKCp{_W}{{60,80}}",  # JFrog
    rf"AT(?:ATT|CTT|BB){_U}{{20,250}}(?:=[A-F0-9]{{8}})?",  # Atlassian
    rf"gsk_{_W}{{30,80}}",  # Groq
    rf"pplx-{_W}{{30,80}}",
    rf"xai-{_W}{{40,100}}",
    rf"r8_{_W}{{30,60}}",  # Replicate
    r"PMAK-[a-f0-9\-]{40,80}",  # Postman
    rf"dckr_(?:pat|oat)_{_U}{{20,60}}",  # Docker
    rf"figd_{_U}{{30,80}}",  # Figma
    r"pul-[a-f0-9]{40}\b",  # Pulumi
    rf"HRKU-{_U}{{30,80}}",  # Heroku
    r"fm[12]_[A-Za-z0-9+/=_\-]{30,600}",  # Fly
    rf"phc_{_W}{{30,60}}",  # PostHog
)
VENDOR = re.compile(rf"(?=[A-Za-z0-9])(?<![A-Za-z0-9_\-])(?:{'|'.join(_VENDORS)}){_U}*+")
"""Tokens that can be known by how they begin; whole, however long."""

WEBHOOK = re.compile(
    r"(?P<name>\bhttps?://(?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks|"
    r"[\w.\-]{1,100}\.webhook\.office\.com/webhookb2)/)(?P<value>[\w/@.\-]{10,300})"
)
"""Addresses that are their own password."""

_CARD = re.compile(r"(?=[2-6])(?<![\w.])[2-6][0-9](?:[ \-]?[0-9]){11,17}(?![\w.]?[0-9])")
_ISSUER = re.compile(
    r"(?:4(?:.{12}|.{15}|.{18})|(?:5[1-5]|2[2-7])..{13}|3[47].{13}|3(?:0[0-5]|[689].).{11}|(?:35..|6011|64[4-9].|65..|62..).{12,15})"
)

_DIGITS = re.compile("([ -])")

PEM_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\ \t\r\n"


def without_cards(text: str, mask: str) -> str:
    """Card numbers masked: the digits of a known issuer, of its length, with a right check digit (Luhn)."""
    parts: list[str] = []
    kept = at = 0
    while (found := _CARD.search(text, at)) is not None:
        length = _length_of_card(found[0])
        if length:
            parts += (text[kept : found.start()], mask)
            kept = at = found.start() + length
        else:  # a date or an amount may stand before the card
            at = found.start() + len(_DIGITS.split(found[0], maxsplit=1)[0])
    return "".join((*parts, text[kept:])) if parts else text


def _length_of_card(run: str) -> int:
    """Of the card at the beginning of this run of digits, its separators included; 0: there is none."""
    pieces = _DIGITS.split(run)  # digits, separator, digits, ...: a date or an amount may follow the card
    for last in range(len(pieces), 0, -2):
        digits = "".join(pieces[0:last:2])
        if _ISSUER.fullmatch(digits) and _luhn(digits):
            return len("".join(pieces[:last]))
    return 0


def without_private_keys(text: str, mask: str) -> str:
    """Private keys in PEM masked, whole; one that was cut off at either end too."""
    if "PRIVATE KEY" not in text:
        return text
    parts: list[str] = []
    at = 0
    begin = PEM_BEGIN.search(text)
    while True:
        if begin is not None and begin.start() < at:  # else it still lies ahead: looking again would be quadratic
            begin = PEM_BEGIN.search(text, at)
        end = PEM_END.search(text, at)
        if begin is None and end is None:
            return "".join((*parts, text[at:]))
        if end is not None and (begin is None or end.start() < begin.start()):
            parts += (text[at : end.start()].rstrip(_BASE64), mask)
            at = end.end()
            continue
        assert begin is not None
        end = PEM_END.search(text, begin.end())
        parts += (text[at : begin.start()], mask)
        at = len(text) if end is None else end.end()


def _luhn(digits: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        number = int(digit) * (1 + place % 2)
        total += number - 9 if number > 9 else number
    return total % 10 == 0
