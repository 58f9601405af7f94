"""Whether it answers rightly, by every check that was made, and what was not shown."""

from collections import Counter
from collections.abc import Sequence

from holddown.explain.report.markup import Html, joined, section, tag
from holddown.explain.report.told import Told, date_text
from holddown.verify.verdict import Outcome, Verdict

_CLASSES = {Outcome.FAILED: "bad", Outcome.PASSED: "good"}
"""Any other shows nothing, one way or the other."""
_ORDER = {Outcome.FAILED: 0, Outcome.PASSED: 2}
"""What failed stands first, then what was not shown."""


def verified(told: Told) -> Html:
    released, later = told.deployment.status.verdicts, told.verify
    name = told.deployment.birth.name
    parts: list[str] = []
    if later is not None:
        cut = f", cut short: {later.cut}" if later.cut else ""
        parts += [tag("h3", f"By verify, {date_text(later.at)} (run {later.id}{cut})"), _verdicts(later.verdicts)]
    else:
        parts.append(tag("p", "No fuller verification is on record: ", tag("code", f"holddown verify {name}")))
    if released:
        parts += [tag("h3", "Before it was released"), _verdicts(released)]
    else:
        parts.append(tag("p", "It was not checked before a release: it never came that far."))
    return section("right", "Is it right?", tag("p", counted_text(told), class_="lead"), *parts)


def counted_text(told: Told) -> str:
    """`5 of 7 checks passed, 1 failed, 1 skipped`, of the newest verification; what does not apply does not count."""
    verdicts = told.verify.verdicts if told.verify is not None else told.deployment.status.verdicts
    if not verdicts:
        return "nothing was checked"
    counts = Counter(each.outcome for each in verdicts if each.outcome is not Outcome.NOT_APPLICABLE)
    of = counts.total()
    texts = [f"{counts.pop(Outcome.PASSED, 0)} of {of} checks passed"]
    return ", ".join([*texts, *(f"{count} {outcome}" for outcome, count in sorted(counts.items()))])


def _verdicts(verdicts: Sequence[Verdict]) -> Html:
    others = [each.check for each in verdicts if each.outcome is Outcome.NOT_APPLICABLE]
    applying = [each for each in verdicts if each.outcome is not Outcome.NOT_APPLICABLE]
    ordered = sorted(applying, key=lambda each: _ORDER.get(each.outcome, 1))
    listed = tag("ul", *(tag("li", _verdict(each)) for each in ordered), class_="items")
    return joined([listed, tag("p", f"Not applicable: {', '.join(others)}.") if others else ""])


def _verdict(one: Verdict) -> Html:
    outcome = tag("span", str(one.outcome), class_=_CLASSES.get(one.outcome, "open"))
    causes = [tag("p", joined([each.what, each.do], ": ")) for each in one.findings]
    more = ((f"asked: {one.asked}", one.asked), (one.seen, one.seen), (f"most likely {one.cause}", one.cause))
    seen = tag("div", *causes, *(tag("p", text, class_="because") for text, is_said in more if is_said))
    return joined([tag("p", tag("strong", one.check), " ", outcome), seen])
