"""Whether it answers rightly, by every check that was made, and what was not shown."""

from collections.abc import Sequence

from holddown.explain.report.markup import Html, joined, section, tag
from holddown.explain.report.told import Told, date_text
from holddown.verify.verdict import Outcome, Verdict

_CLASSES = {Outcome.PASSED: "good", Outcome.FAILED: "bad"}
"""Any other shows nothing, one way or the other."""


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
    """`6 of 7 checks passed, 1 shows nothing either way`, of the newest verification."""
    verdicts = told.verify.verdicts if told.verify is not None else told.deployment.status.verdicts
    if not verdicts:
        return "nothing was checked"
    passed, failed = (sum(each.outcome is kind for each in verdicts) for kind in _CLASSES)
    unclear = len(verdicts) - passed - failed
    texts = [f"{passed} of {len(verdicts)} checks passed"]
    texts += [f"{failed} failed"] if failed else []
    texts += [f"{unclear} {'shows' if unclear == 1 else 'show'} nothing either way"] if unclear else []
    return ", ".join(texts)


def _verdicts(verdicts: Sequence[Verdict]) -> Html:
    return tag("ul", *(tag("li", _verdict(each)) for each in verdicts), class_="items")


def _verdict(one: Verdict) -> Html:
    outcome = tag("span", str(one.outcome).replace("_", " "), class_=_CLASSES.get(one.outcome, "open"))
    causes = [tag("p", f"{each.what}. {each.do}", class_="because") for each in one.findings]
    seen = tag("div", tag("p", one.seen, class_="because"), *causes)
    return joined([tag("p", tag("strong", one.check), " ", outcome), seen])
