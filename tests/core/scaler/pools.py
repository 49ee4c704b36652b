"""Results on pool devices by number, for what the scheduler would not hand out itself."""

from dds_core.model import Model, Result
from tests.support.world import A100, FAILED, READY, RESCHEDULE


def pool_results(*numbers: int, model: Model = A100, fabric: int = 1) -> tuple[Result, ...]:
    pool = f"{model.device}-fabric{fabric}"
    return tuple(
        Result(f"r{i}", model.driver, pool, f"{model.device}-{i}", (READY,), (RESCHEDULE, FAILED)) for i in numbers
    )
