"""Run by the engine's own Python: asks vLLM's selectors which kernels they would take, for GPUs that need not be here.

stdin: a JSON object. pretend: this build was made for the CPU, so what a CUDA build would bring is put there in name
only. deadline_s: ends itself after so long, should nobody be left to end it. questions: of one compute capability;
each has `kind` (`attention` or `moe`) and the fields of the query in `facts/`. stdout: one JSON line for each
question, in order. Whatever vLLM itself prints goes to stderr.
"""

import json
import os
import signal
import sys


def main():
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    asked = json.load(sys.stdin)
    signal.alarm(int(asked["deadline_s"]))
    import asked_ground

    ground = asked_ground.Ground(asked["questions"][0]["compute_capability"], pretend=asked["pretend"])
    import asked_attention
    import asked_moe

    kinds = {"attention": asked_attention.answer, "moe": asked_moe.answer}
    for question in asked["questions"]:
        try:
            said = kinds[question["kind"]](question, ground)
        except Exception as error:  # of one question: the others can be answered all the same
            said = {"error": f"{type(error).__name__}: {error}"[:1000]}
        answers.write(json.dumps(said) + "\n")
    answers.flush()
    # without the interpreter's way out: libraries that are half there have crashed on it
    os._exit(0)


if __name__ == "__main__":
    main()
