"""An engine process whose model is a hash; the first argument says how it behaves."""

import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from isotherm.engine.process import main


def build(options, loaded):
    """The behaviours of a bad day: while loading, and once serving. Imports as late as in a real child."""
    from engine.fakes import limits, make_engine
    from isotherm.base.errors import SetupError
    from isotherm.engine.service import Built

    if MODE == "setup-error":
        raise SetupError("the model file is torn; fetch it again")
    if MODE == "bug":
        raise ValueError("unexpected tensor")
    if MODE == "crash":
        print("about to crash", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGSEGV)
    loaded(1, 2)
    loaded(2, 2)
    if MODE == "slow-load":
        time.sleep(60)
    engine, runner = make_engine(limits(pool_tokens=1024, max_model_len=400, max_queue=4))
    run = runner.run
    if MODE == "slow":
        runner.run = lambda forward: time.sleep(0.05) or run(forward)
    if MODE == "broken-step":
        runner.run = lambda forward: 1 // 0
    if MODE == "leak":
        engine._blocks.allocate(1)
    if MODE == "hangs":
        runner.run = lambda forward: time.sleep(60)
    return Built(engine, {"kernels": "hash"})


if __name__ == "__main__":
    MODE = sys.argv[1]
    sys.exit(main(sys.argv[2:], build))
