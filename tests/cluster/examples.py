"""Programs of examples/, on several hosts."""

from scenarios.examples import SCENARIOS  # noqa: F401
