"""Runs on record."""

import json

from fakes.runs import a_subject
from holddown.base.codec import dumps, loads
from holddown.remember.run import Run, VerifyRun
from holddown.verify.quality import Position, Reference
from holddown.verify.verdict import Outcome, Verdict

VERDICT = Verdict("usage", Outcome.INCONCLUSIVE, "seen", (), "asked", "cause")
REFERENCE = Reference(a_subject(), 1.0, ((Position(" a", ((" a", -0.1), ("", -3.0))),),), (("dtype", "float32"),))


def test_a_verification_comes_back_as_it_was() -> None:
    """With what later ones can be compared with."""
    run = VerifyRun("0123abcd", 1.0, a_subject(), (VERDICT,), "interrupted", REFERENCE)
    assert loads(Run, dumps(run, Run)) == run  # type: ignore[arg-type]


def test_one_from_before_there_were_causes_and_references_is_read() -> None:
    """What an earlier release wrote has neither."""
    run = VerifyRun("0123abcd", 1.0, a_subject(), (Verdict("usage", Outcome.SKIPPED, "seen"),))
    old = json.loads(dumps(run, Run))
    del old["reference"], old["verdicts"][0]["asked"], old["verdicts"][0]["cause"]
    assert loads(Run, json.dumps(old)) == run  # type: ignore[arg-type]
