"""``isotherm serve`` with a script in the engine's place; a program, started by the tests with the verb's own flags.

The prompt chooses what happens: "die" loses the engine in mid-answer, anything else is a slow answer.
A model called "stuck" never loads, one called "broken" cannot.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from isotherm.base.errors import EngineDied, SetupError
from isotherm.cli import serve as verb
from isotherm.cli.main import main
from support.scripted_backend import ScriptedBackend, piece, say


class Backend(ScriptedBackend):
    def __init__(self, settings):
        super().__init__(self.play, details={"dtype": "scripted", "blocks": "100 of 32 tokens"})
        self.model = settings["model"]

    def play(self, turn):
        if "die" not in turn.prompt.messages[-1]["content"]:
            yield from say(*(f"w{number} " for number in range(100)), pause=0.03)(turn)
            return
        yield piece(turn, "last ")
        yield 0.1
        self.broken = "the engine process was killed by the test"
        yield EngineDied(self.broken)

    async def start(self, loaded):
        if self.model == "broken":
            raise SetupError("the model is broken; take another")
        if self.model == "stuck":
            loaded(3, 4)
            await asyncio.sleep(600)

    def failure(self):
        return self.broken

    async def close(self):
        await super().close()
        print("closed", file=sys.stderr, flush=True)


verb._embedded = Backend
sys.exit(main(["serve", *sys.argv[1:]]))
