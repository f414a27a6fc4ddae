from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from eigentrack.compiler import Compiled, choose_plan, compile_network, load_compiled, verify
from eigentrack.explorer.inspection_view import inspect_folder, show_inspection
from eigentrack.explorer.language_choice import GROUP, NAMED, REGEX, LanguageChoice
from eigentrack.explorer.network_view import certificate_in_words, compile_into, show_network, show_position, zip_folder
from eigentrack.explorer.word_reading import MOST_LETTERS, read_word


class Silent:
    """A worker's line to nobody."""

    is_stopped = False

    def __init__(self):
        self.news = []

    def report(self, news):
        self.news.append(news)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("explorer") / "network"
    compile_into(Silent(), LanguageChoice(REGEX, "(ab|ba)*"), None, home)
    return home


@pytest.fixture(scope="module")
def compiled(folder) -> Compiled:
    return load_compiled(folder)


def network(choice: LanguageChoice, **options) -> Compiled:
    return compile_network(choose_plan(choice.automaton(), **options))


def test_the_download_can_be_verified_by_itself(folder, tmp_path):
    with zipfile.ZipFile(zip_folder(folder)) as archive:
        archive.extractall(tmp_path)
    assert verify(tmp_path / "network").holds


def test_the_network_room_says_what_was_compiled_and_proved(compiled):
    said = show_network(compiled, "<ab>")
    assert "permutation (deltaproduct)" in said
    assert "Proved for every word of every length; no value is ever rounded." in said
    assert "&lt;ab&gt;" in said
    assert compiled.certificate.weights_sha256 in said


def test_a_bounded_proof_says_its_bound():
    certificate = network(LanguageChoice(REGEX, "(aaaaa)*"), architecture="rotation").certificate
    assert certificate_in_words(certificate) == f"Proved for every word of at most {certificate.length_bound} letters."


READERS = [
    (LanguageChoice(REGEX, "(ab|ba)*"), {}, "abbaabab"),
    (LanguageChoice(NAMED, "parity"), {}, "011010"),
    (LanguageChoice(REGEX, "(abab)*"), {"architecture": "dense"}, "ababab"),
    (LanguageChoice(GROUP, "S3", "generators"), {"spread_factors": True}, "0 2 1,1 0 2,0 2 1,1 0 2"),
]


@pytest.mark.parametrize(("choice", "options", "word"), READERS)
def test_a_word_is_read_like_the_automaton_reads_it(choice, options, word):
    compiled = network(choice, **options)
    reading = read_word(compiled, word)
    dfa = choice.automaton()
    assert list(reading.states) == [dfa.run(reading.letters[:end]) for end in range(len(reading.letters) + 1)]


@pytest.mark.parametrize(("choice", "options", "word"), READERS)
def test_the_memory_follows_the_matrices_that_are_shown(choice, options, word):
    """In one layer B(x) = H_t - A(x_t) H_(t-1) depends on the letter alone."""
    reading = read_word(network(choice, **options), word)
    (layer,) = reading.layers
    added: dict[str, np.ndarray] = {}
    for place, letter in enumerate(reading.letters, start=1):
        rest = layer.memories[place] - layer.matrices[place] @ layer.memories[place - 1]
        np.testing.assert_allclose(rest, added.setdefault(letter, rest), atol=1e-6)


def test_parity_flips_on_a_one_and_keeps_on_a_zero():
    (layer,) = read_word(network(LanguageChoice(NAMED, "parity")), "01").layers
    assert np.linalg.eigvals(layer.matrices[1]).ravel().tolist() == [1]
    assert np.linalg.eigvals(layer.matrices[2]).ravel().tolist() == [-1]


def test_every_position_of_a_cascade_is_shown():
    compiled = network(LanguageChoice(REGEX, "(ab|ba)*"), architecture="diagonal")
    reading = read_word(compiled, "ab")
    assert [layer.layer for layer in reading.layers] == [1, 3, 5]  # delays lie between
    pages = [show_position(compiled, reading, position) for position in range(3)]
    assert "before the first letter" in pages[0]
    assert "state 1, reject" in pages[1]
    assert "state 0, accept" in pages[2]
    assert all("data:image/png;base64," in page for page in pages)
    assert show_position(compiled, reading, 99) == pages[2]


@pytest.mark.parametrize(("word", "message"), [("abx", "letter 'x' is not in"), ("a" * (MOST_LETTERS + 1), "at most 200")])
def test_a_word_that_cannot_be_read_is_named(compiled, word, message):
    with pytest.raises(ValueError, match=message):
        read_word(compiled, word)


def test_a_compiled_network_is_inspected(folder):
    line = Silent()
    page = inspect_folder(line, folder, "the <network>", 64)
    assert "the &lt;network&gt;: compiled network" in page
    assert {what for what, _ in line.news} >= {"spectra", "horizon", "noise"}
    assert all(0 <= share <= 1 for _, share in line.news)
    framed = show_inspection(page)
    assert framed.count("<") == 4  # the sheet and the frame: the page itself is escaped


def test_a_folder_that_holds_no_network_is_named(tmp_path):
    with pytest.raises(ValueError, match="is no run, model or compiled network"):
        inspect_folder(Silent(), tmp_path, "empty", 64)
