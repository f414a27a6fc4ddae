"""Automata and groups: frozen data and functions on it; pure Python, no torch."""

from eigentrack.automata.dfa import DFA as DFA
from eigentrack.automata.dfa import minimal as minimal
from eigentrack.automata.groups import Group as Group
from eigentrack.automata.groups import group as group
from eigentrack.automata.languages import LANGUAGES as LANGUAGES
from eigentrack.automata.languages import language as language
