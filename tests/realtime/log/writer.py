"""A process that appends until it is killed: `python -m tests.realtime.log.writer URL EPOCH FIRST SEED`.

It says `appended N` after each append, N being the highest ordinal that the log has acknowledged.
"""

import random
import sys
import time

from dds_adapters import sql
from tests.support.logs import NAME, NOON, told_group


def main(url: str, epoch: int, ordinal: int, seed: int) -> None:
    dice = random.Random(seed)
    with sql.Database(url) as database:
        log = database.log(NAME)
        while True:
            batch = [told_group(ordinal + n) for n in range(dice.choice([1, 1, 3, 10]))]
            log.append(batch, epoch=epoch, recorded_at=NOON)
            ordinal = batch[-1].ordinal + 1
            time.sleep(dice.choice([0, 0, 0.005]))  # so that some are killed between the commit and the word of it
            sys.stdout.write(f"appended {ordinal - 1}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
