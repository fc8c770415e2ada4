"""From the engine's pieces to deltas: token bytes are filled in and reasoning is told from content."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from isotherm.base.outcome import Channel, Delta, Finish, FinishReason, TokenLogprob, TopLogprob
from isotherm.chat.reasoning import Part, ReasoningSplitter, Token
from isotherm.engine.messages import Piece, TokenScore

BytesOf = Callable[[int], bytes]


def to_logprob(score: TokenScore, bytes_of: BytesOf) -> TokenLogprob:
    """The engine sends ids and numbers only; the bytes of tokens are known on this side."""
    top = tuple(TopLogprob(token_id, logprob, bytes_of(token_id)) for token_id, logprob in score.top)
    return TokenLogprob(score.token_id, score.logprob, bytes_of(score.token_id), top)


class Assembler:
    """Makes deltas of one answer. ``splitter`` is None for models and routes without reasoning."""

    def __init__(self, bytes_of: BytesOf, splitter: ReasoningSplitter | None) -> None:
        self._bytes_of = bytes_of
        self._splitter = splitter
        self._received = 0
        self._pending: dict[int, tuple[int, TokenLogprob | None]] = {}
        """Tokens whose channel is not settled yet, by index in the answer."""

    def deltas(self, piece: Piece) -> list[Delta]:
        """What a piece tells the reader; the last delta carries the finish if the piece does."""
        logprobs = [to_logprob(score, self._bytes_of) for score in piece.scores]
        if self._splitter is None:
            return [Delta(piece.text, tuple(piece.token_ids), Channel.CONTENT, tuple(logprobs), piece.finish)]
        parts = self._splitter.push(piece.text, self._register(piece, logprobs))
        if piece.finish is None:
            return self._of_parts(parts)
        natural = piece.finish.reason is FinishReason.STOP
        deltas = self._of_parts([*parts, *self._splitter.finish(natural=natural)])
        return [*deltas, Delta(finish=self._with_reasoning(piece.finish, self._splitter))]

    def _register(self, piece: Piece, logprobs: list[TokenLogprob]) -> list[Token]:
        tokens = []
        for offset, (token_id, length) in enumerate(zip(piece.token_ids, piece.lengths, strict=True)):
            tokens.append(Token(length, self._received))
            self._pending[self._received] = (token_id, logprobs[offset] if logprobs else None)
            self._received += 1
        return tokens

    def _of_parts(self, parts: Iterable[Part]) -> list[Delta]:
        deltas = []
        for part in parts:
            tokens = [self._pending.pop(index) for index in part.tokens]
            if part.text or tokens:
                ids = tuple(token_id for token_id, _ in tokens)
                logprobs = tuple(logprob for _, logprob in tokens if logprob is not None)
                deltas.append(Delta(part.text, ids, part.channel, logprobs))
        return deltas

    @staticmethod
    def _with_reasoning(finish: Finish, splitter: ReasoningSplitter) -> Finish:
        usage = replace(finish.usage, reasoning_tokens=splitter.reasoning_tokens)
        return replace(finish, usage=usage, unterminated=splitter.unterminated)
