"""Automata, languages and groups: frozen dataclasses and functions on them, in Python and numpy, without torch."""

from eigentrack.automata.cascade import Cascade as Cascade
from eigentrack.automata.cascade import cascade as cascade
from eigentrack.automata.cascade import two_point_cascade as two_point_cascade
from eigentrack.automata.dfa import DFA as DFA
from eigentrack.automata.dfa import minimal as minimal
from eigentrack.automata.dfa import same_language as same_language
from eigentrack.automata.green import GreenRelations as GreenRelations
from eigentrack.automata.green import green_relations as green_relations
from eigentrack.automata.groups import Group as Group
from eigentrack.automata.groups import group as group
from eigentrack.automata.groups import word_problem_dfa as word_problem_dfa
from eigentrack.automata.holonomy import Holonomy as Holonomy
from eigentrack.automata.holonomy import holonomy as holonomy
from eigentrack.automata.language_class import LanguageClass as LanguageClass
from eigentrack.automata.language_class import classify as classify
from eigentrack.automata.languages import LANGUAGES as LANGUAGES
from eigentrack.automata.languages import language as language
from eigentrack.automata.monoid_subgroups import MonoidSubgroup as MonoidSubgroup
from eigentrack.automata.monoid_subgroups import maximal_subgroups as maximal_subgroups
from eigentrack.automata.regex import regex_dfa as regex_dfa
from eigentrack.automata.splitting import split as split
from eigentrack.automata.transition_monoid import MonoidTooLarge as MonoidTooLarge
from eigentrack.automata.transition_monoid import TransitionMonoid as TransitionMonoid
from eigentrack.automata.transition_monoid import transition_monoid as transition_monoid
