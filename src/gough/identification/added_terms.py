"""Joint terms that were accepted: as text for the robot file, and as notices."""

from __future__ import annotations

from dataclasses import dataclass

from gough.core.notices import Notice
from gough.identification.term_choice import TermChoice, TermStep
from gough.mechanism.added_terms import free_term_name, term_table, term_text
from gough.mechanism.expression import EFFORT_NAME
from gough.mechanism.types import Mechanism


@dataclass(frozen=True, kw_only=True)
class AddedTerms:
    """Joint terms that were added to those of the robot file."""

    # their `[[term]]` tables, as in the robot file beside the result
    text: str = ""
    notices: tuple[Notice, ...] = ()  # one for each step of the selection


def added_terms(mechanism: Mechanism, choice: TermChoice) -> AddedTerms:
    """Return the proposed terms as text for the robot file; each motor gets terms of its own."""
    tables = []
    names: list[str] = []
    for step in choice.steps:
        terms = [mechanism.known_terms[name] for name in step.terms]
        for joint_name in step.joints:
            name = free_term_name(mechanism, terms[0].family, names)
            names.append(name)
            table = term_table(
                name,
                step.label,
                terms,
                mechanism.joint(joint_name),
                step.constants[joint_name],
                step.validity[joint_name],
            )
            tables.append(table)
    if not tables:
        return AddedTerms(notices=(_nothing_added(choice),))
    notices = [_step_notice(mechanism, step, choice.folds) for step in choice.steps]
    return AddedTerms(text=term_text(tables), notices=tuple(notices))


def _nothing_added(choice: TermChoice) -> Notice:
    """Return the notice that no term was accepted."""
    return Notice(
        rule="terms",
        level="info",
        text=f"no joint term was added: none predicts {choice.folds} that were left out better "
        "than chance, and every log better",
    )


def _step_notice(mechanism: Mechanism, step: TermStep, folds: str) -> Notice:
    """Return the notice of one step of the selection."""
    seen = []
    for joint_name in step.joints:
        joint = mechanism.joint(joint_name)
        units = {"q": joint.unit, "qd": f"{joint.unit}/s", EFFORT_NAME: joint.effort_unit}
        for word, (low, high) in step.validity[joint_name].items():
            seen.append(f"{joint_name} {word} {low:.3g} to {high:.3g} {units[word]}")
    text = (
        f"{step.label} was added: the error of {folds} that were left out goes from "
        f"{100 * step.before:.3g} to {100 * step.after:.3g} %"
    )
    if seen:
        text += f"; identified for {', '.join(seen)}"
    advice = ""
    if folds == "blocks":
        text += "; only parts of one log support it"
        advice = "identify from several logs of different motions: whole logs are then left out"
    return Notice(
        rule="terms",
        level="info",
        where=", ".join(step.joints),
        text=text,
        advice=advice,
        numbers={"before": step.before, "after": step.after},
    )
