"""Every page runs: at once what takes seconds, all of it in a shell."""

from __future__ import annotations

import pytest

from tests.docs.claims import AT_ONCE, IN_A_SHELL, PAGES, claims
from tests.docs.session import run_at_once, run_in_a_shell
from tests.docs.test_extend import EXTEND  # runs the page itself

RUNNERS = {page: {claim.runner for claim in claims(page)} for page in PAGES}


@pytest.mark.parametrize("page", [page for page in PAGES if AT_ONCE in RUNNERS[page] and page != EXTEND])
def test_what_takes_seconds_runs_as_printed(page: str) -> None:
    run_at_once(page)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if IN_A_SHELL in RUNNERS[page]])
def test_the_whole_page_runs_in_a_shell(page: str) -> None:
    run_in_a_shell(page)
