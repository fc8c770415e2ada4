"""From the engine's pieces to deltas: token bytes are filled in, reasoning and calls are told from content."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from isotherm.base.outcome import CallPiece, Channel, Delta, Finish, FinishReason, TokenLogprob, TopLogprob
from isotherm.chat.calls import CallParser, Event
from isotherm.chat.reasoning import Part, ReasoningSplitter, Token
from isotherm.engine.messages import Piece, TokenScore

BytesOf = Callable[[int], bytes]
_Scored = tuple[int, TokenLogprob | None]
"""A token with its log-probability, if that was asked for."""


def to_logprob(score: TokenScore, bytes_of: BytesOf) -> TokenLogprob:
    """The engine sends ids and numbers only; the bytes of tokens are known on this side."""
    top = tuple(TopLogprob(token_id, logprob, bytes_of(token_id)) for token_id, logprob in score.top)
    return TokenLogprob(score.token_id, score.logprob, bytes_of(score.token_id), top)


class Assembler:
    """Makes deltas of one answer.

    ``splitter`` is None for models and routes without reasoning, ``parser`` where no function may be called (one
    needs a splitter before it). A token whose text the parser holds back goes with the next delta.
    """

    def __init__(self, bytes_of: BytesOf, splitter: ReasoningSplitter | None, parser: CallParser | None = None) -> None:
        self._bytes_of = bytes_of
        self._splitter = splitter
        self._parser = parser
        self._waiting: list[_Scored] = []
        self._received = 0
        self._pending: dict[int, _Scored] = {}
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
        finish = self._with_reasoning(piece.finish, self._splitter)
        if self._parser is None:
            return [*deltas, Delta(finish=finish)]
        # A stop string may stand in an argument; only the model itself ends its calls.
        events = self._parser.finish(natural=natural and not isinstance(finish.matched, str))
        deltas += self._of_events(events or [""] * bool(self._waiting))
        return [*deltas, Delta(finish=_with_calls(finish, self._parser))]

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
            if self._parser is not None and part.channel is Channel.CONTENT:
                self._waiting += tokens
                deltas += self._of_events(self._parser.feed(part.text))
            elif part.text or tokens:
                deltas.append(_delta(part.text, tokens, part.channel))
        return deltas

    def _of_events(self, events: Iterable[Event]) -> list[Delta]:
        deltas = []
        for event in events:
            tokens, self._waiting = self._waiting, []
            deltas.append(_delta(event, tokens, Channel.CONTENT))
        return deltas

    @staticmethod
    def _with_reasoning(finish: Finish, splitter: ReasoningSplitter) -> Finish:
        usage = replace(finish.usage, reasoning_tokens=splitter.reasoning_tokens)
        return replace(finish, usage=usage, unterminated=splitter.unterminated)


def _delta(event: Event, tokens: Iterable[_Scored], channel: Channel) -> Delta:
    tokens = list(tokens)
    ids = tuple(token_id for token_id, _ in tokens)
    logprobs = tuple(logprob for _, logprob in tokens if logprob is not None)
    if isinstance(event, CallPiece):
        return Delta("", ids, Channel.CALLS, logprobs, calls=(event,))
    return Delta(event, ids, channel, logprobs)


def _with_calls(finish: Finish, parser: CallParser) -> Finish:
    called = finish.reason is FinishReason.STOP and parser.complete > 0
    return replace(
        finish,
        reason=FinishReason.TOOL_CALLS if called else finish.reason,
        unfinished_call=parser.unfinished,
        text_after_calls=parser.text_after,
    )
