"""The forms of vendors' tokens that detect-secrets keeps, where it is installed: the extra `secrets`.

Only what tells by its shape is taken, and only what no text makes slow: their patterns for names are
ours already.
"""

from __future__ import annotations

import functools
import importlib
import re

_PLUGINS = {
    "aws": "AWSKeyDetector",
    "azure_storage_key": "AzureStorageKeyDetector",
    "discord": "DiscordBotTokenDetector",
    "github_token": "GitHubTokenDetector",
    "gitlab_token": "GitLabTokenDetector",
    "mailchimp": "MailchimpDetector",
    "pypi_token": "PypiTokenDetector",
    "sendgrid": "SendGridDetector",
    "slack": "SlackDetector",
    "square_oauth": "SquareOAuthDetector",
    "stripe": "StripeDetector",
    "telegram_token": "TelegramBotTokenDetector",
    "twilio": "TwilioKeyDetector",
}


@functools.cache
def patterns() -> tuple[re.Pattern[str], ...]:
    """All of their forms; none where detect-secrets is not installed, or another than we know."""
    patterns: list[re.Pattern[str]] = []
    for module, name in _PLUGINS.items():
        try:
            plugin = getattr(importlib.import_module(f"detect_secrets.plugins.{module}"), name)
            patterns += [pattern for pattern in plugin.denylist if isinstance(pattern, re.Pattern)]
        except Exception:  # noqa: S112  (a list that cannot be loaded is one that is not there)
            continue
    return tuple(patterns)
