"""The words of a record."""

from dataclasses import replace

from fakes.records import a_birth, a_plan
from holddown.base.evidence import Source, SourceKind
from holddown.launch.spec import SecretEnv
from holddown.plan.plan import Setting


def test_the_same_is_asked_for_once_more_with_all_that_the_user_said() -> None:
    """A remedy that left a setting out would start another deployment; what holddown chose, it chooses again."""
    plan = a_plan()
    own = Setting("dtype", "float16", "you set it", Source(SourceKind.USER, "--set dtype=float16"))
    birth = a_birth(
        plan=replace(plan, model_path="/my models/m", settings=(*plan.settings, own)), skip_checks=("stop",)
    )
    spec = replace(birth.spec, host="0.0.0.0", secrets=(SecretEnv("KEY", "/k"),))
    said = "--name m --set dtype=float16 --skip-check stop --api-key-file /k --host 0.0.0.0"
    assert replace(birth, spec=spec).up_again == f"holddown up '/my models/m' {said}"
    assert a_birth().up_again == "holddown up /models/llama --name m"
