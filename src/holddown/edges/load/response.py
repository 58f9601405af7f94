"""One HTTP response, from its raw reads to the times of its deltas. Any split of the bytes gives the same events.

Nothing is parsed while bytes come: reads are kept with their times, and `settle` takes them up in one go, at the end of
the response or when the loop has nothing else to do.

Source: RFC 9112 section 7.1 (chunked) and 6.3 (where a body ends); https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from typing import Any

import msgspec

MIDDLE = b"\n\n\r\n"
"""How a read ends in the middle of a chunked event stream: an event and its chunk are over, and the response is not."""

_SHOWN_CHARACTERS = 200
_MOST_HEAD_BYTES = 65536
_MOST_ALIKE = 64


class _Delta(msgspec.Struct):
    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    tool_calls: Any = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Event(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode


class Response:
    """reads, times: not yet settled. deltas: arrival of each event that carried text or a token. answer_at: of the first
    that was no reasoning. fault: why it cannot be measured. over: the last byte of it has come."""

    __slots__ = (
        "_alike",
        "_body",
        "_carry",
        "_event",
        "_left",
        "answer_at",
        "closes",
        "deltas",
        "done",
        "fault",
        "finished",
        "last_at",
        "over",
        "reads",
        "status",
        "times",
        "usage",
    )

    def __init__(self) -> None:
        self.reads: list[bytes] = []
        self.times: list[float] = []
        self.deltas: list[float] = []
        self.answer_at: float | None = None
        self.usage: _Usage | None = None
        self.fault = ""
        self.over = False
        self.done = False
        self.finished = False
        self.closes = False
        self.status = 0
        self.last_at = 0.0
        self._carry = b""  # of the raw bytes: what no step could be made of yet
        self._event = b""  # of the body: an event that is not whole
        self._body = "head"  # head, chunked, length, close
        self._alike: dict[int, tuple[bytes, bytes]] = {}  # by length of a read
        self._left = 0  # bytes that are still to come of a body whose length is known

    def settle(self) -> None:
        """Takes up what has come."""
        if not self.reads:
            return
        reads, times = self.reads[:], self.times[:]
        # in place: the loop appends to these very lists
        self.reads.clear()
        self.times.clear()
        self.last_at = times[-1]
        while self._body == "head":
            if not self._take_head(reads, times):
                return
        if self._body == "chunked":
            self._take_chunked(reads, times)
            return
        for read, at in zip(reads, times, strict=True):
            if self._body == "length":
                self._left -= len(read)
                self.over = self._left <= 0
            self._take(read, at)

    def end(self) -> None:
        """The connection is closed."""
        self.settle()
        if self._body == "close":
            if self._event:
                self._take(b"\n\n", self.last_at)
        elif not self.over:
            self.fault = self.fault or self._cut()
        self.over = self.closes = True

    def verdict(self) -> str:
        """Why it cannot be measured; empty where it can."""
        if self.fault:
            return self.fault
        if self.status != 200:
            return f"HTTP {self.status}: {_shown(self._event)}"
        if not self.deltas:
            return f"no token came: {_shown(self._event)}" if self._event.strip() else "no token came"
        if not self.done and not self.finished:
            return "the stream ended before the answer was finished"
        return "" if self.usage else "the stream brought no usage"

    # --- head -----------------------------------------------------------------------------------------------------

    def _take_head(self, reads: list[bytes], times: list[float]) -> bool:
        """Leaves in `reads` what follows the head; False where the head is not whole yet."""
        raw = self._carry + b"".join(reads)
        head, blank, rest = raw.partition(b"\r\n\r\n")
        if not blank:
            self._carry = raw
            if len(raw) > _MOST_HEAD_BYTES or not b"HTTP/1.".startswith(raw[:7]):
                self._broken(f"this is not HTTP: {_shown(raw)}")
            return False
        self._carry = b""
        lines = head.split(b"\r\n")
        words = lines[0].split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            self._broken(f"this is not HTTP: {_shown(head)}")
            return False
        self.status = int(words[1])
        fields = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])
        }
        if self.status >= 200:
            self._frame(words[0], fields)
        # what stands behind the head came with the last read that is needed for it, or later
        kept: list[bytes] = []
        behind = len(rest)
        while behind > 0:
            last = reads[len(reads) - 1 - len(kept)]
            kept.append(last[-behind:] if behind < len(last) else last)
            behind -= len(last)
        kept.reverse()
        first = len(times) - len(kept)
        reads[:], times[:] = kept, times[first:]
        self.over = self._body == "length" and self._left == 0
        return bool(reads) or self._body != "head"

    def _frame(self, version: bytes, fields: dict[bytes, bytes]) -> None:
        connection = fields.get(b"connection", b"").lower()
        self.closes = connection == b"close" or (version == b"HTTP/1.0" and connection != b"keep-alive")
        length = fields.get(b"content-length", b"")
        if b"chunked" in fields.get(b"transfer-encoding", b"").lower():
            self._body = "chunked"
        elif length.isdigit():
            self._body, self._left = "length", int(length)
        else:
            self._body, self.closes = "close", True

    # --- body -----------------------------------------------------------------------------------------------------

    def _take_chunked(self, reads: list[bytes], times: list[float]) -> None:
        """A read that is one chunk with one event like one that was parsed before, but for its text, is not parsed."""
        alike = self._alike
        for read, at in zip(reads, times, strict=True):
            known = alike.get(len(read))
            if not self._carry and not self._event:
                if known is not None and _is_alike(read, known):
                    self.deltas.append(at)
                    continue
                if known is None and self._takes_alike(read, at):
                    continue
            deltas = len(self.deltas)
            self._take_chunks(self._carry + read if self._carry else read, at)
            if len(self.deltas) == deltas + 1 and known is None and len(alike) < _MOST_ALIKE:
                self._learn(read)

    def _takes_alike(self, read: bytes, at: float) -> bool:
        """Several such chunks in one read, of which each is known."""
        pieces = read.split(MIDDLE)
        if pieces.pop():
            return False
        alike = self._alike
        for piece in pieces:
            known = alike.get(len(piece) + len(MIDDLE))
            if known is None or not _is_alike(piece + MIDDLE, known):
                return False
        self.deltas += [at] * len(pieces)
        return True

    def _learn(self, read: bytes) -> None:
        """From a read that brought one delta: what stands before and behind its text, where it is one whole chunk with
        one event that has the text in a single string."""
        size, _, rest = read.partition(b"\r\n")
        event = rest[6:-4]
        if b"%x" % (len(rest) - 2) != size or not rest.startswith(b"data: {") or rest[-4:] != MIDDLE or b"\n" in event:
            return
        for key in (b'"content":', b'"text":', b'"reasoning":', b'"reasoning_content":'):
            before, found, behind = read.partition(key)
            quote = len(behind) - len(behind.lstrip(b" "))
            if not found or behind[quote : quote + 1] != b'"':
                continue
            begin = len(before) + len(key) + quote + 1
            end = read.find(b'"', begin)
            text = read[begin:end]
            if text and b"\\" not in text and self._is_its_text(event, text):
                self._alike[len(read)] = (read[:begin], read[end:])
                return

    def _is_its_text(self, event: bytes, text: bytes) -> bool:
        """The text is the only thing that the event brings: no end, no usage, no error."""
        told = _decode(event)
        if told.usage or told.error or not told.choices or len(told.choices) != 1:
            return False
        choice = told.choices[0]
        delta = choice.delta or _Delta(content=choice.text)
        return (
            not choice.finish_reason
            and not delta.tool_calls
            and text.decode("utf-8", "replace") in (delta.content, delta.reasoning, delta.reasoning_content)
        )

    def _take_chunks(self, raw: bytes, at: float) -> None:
        """Every chunk that is whole; the rest is carried to the next read."""
        done, size = 0, len(raw)
        while done < size:
            line = raw.find(b"\r\n", done)
            if line < 0:
                break
            try:
                length = int(raw[done:line].partition(b";")[0], 16)
            except ValueError:
                self._broken(f"a chunk has no size: {_shown(raw[done:line])}")
                return
            begin = line + 2
            end = begin + length
            if length == 0:
                # trailers end with an empty line
                self.over = raw[begin : begin + 2] == b"\r\n" or raw.find(b"\r\n\r\n", begin) >= 0
                break
            if end + 2 > size:
                break
            self._take(raw[begin:end], at)
            done = end + 2
        self._carry = raw[done:]

    def _take(self, piece: bytes, at: float) -> None:
        """A piece of the body that was whole at that time."""
        if self.status != 200:
            self._event = (self._event + piece)[:_MOST_HEAD_BYTES]
            return
        if self._event:
            piece = self._event + piece
        if b"\r" in piece:
            # a CR at the very end may be the first half of a line end
            whole, kept = (piece[:-1], b"\r") if piece.endswith(b"\r") else (piece, b"")
            piece = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + kept
        *events, self._event = piece.split(b"\n\n")
        for event in events:
            self._take_event(event, at)

    def _take_event(self, event: bytes, at: float) -> None:
        if event.startswith(b"data: {") and b"\n" not in event:
            data = event[6:]
        else:
            lines = event.strip(b"\n").split(b"\n")
            data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
            if not data:
                self._expect_event(lines)
                return
            if data.strip() == b"[DONE]":
                self.done = True
                return
        try:
            told = _decode(data)
        except msgspec.MsgspecError:
            self.fault = self.fault or f"an event that cannot be read: {_shown(data)}"
            return
        if told.error:
            self.fault = self.fault or f"the stream reports an error: {_shown(msgspec.json.encode(told.error))}"
        if told.usage:
            self.usage = told.usage
        if told.choices:
            self._take_choice(told.choices[0], at)

    def _expect_event(self, lines: list[bytes]) -> None:
        """Comments and other fields carry nothing; anything else is no event stream."""
        strange = next((line for line in lines if line and line.partition(b":")[0] not in _FIELDS), None)
        if strange is not None:
            self.fault = self.fault or f"this is no event stream: {_shown(strange)}"

    def _take_choice(self, choice: _Choice, at: float) -> None:
        if choice.finish_reason:
            self.finished = True
        delta = choice.delta
        if delta is not None:
            if delta.content or delta.tool_calls:
                if self.answer_at is None:
                    self.answer_at = at
                self.deltas.append(at)
            elif delta.reasoning or delta.reasoning_content:
                self.deltas.append(at)
        # an empty text of a plain completion is a token that has none to show: a special one, or half a character
        elif choice.text or (choice.text is not None and not choice.finish_reason):
            if self.answer_at is None:
                self.answer_at = at
            self.deltas.append(at)

    # --- faults ---------------------------------------------------------------------------------------------------

    def _broken(self, why: str) -> None:
        self.fault, self.over, self.closes = self.fault or why, True, True

    def _cut(self) -> str:
        if self._body == "head":
            return "the server hung up before it answered"
        return f"the stream was cut after {len(self.deltas)} deltas"


def _is_alike(read: bytes, known: tuple[bytes, bytes]) -> bool:
    before, behind = known
    if not read.startswith(before) or not read.endswith(behind):
        return False
    text = read[len(before) : -len(behind)]
    return bool(text) and b'"' not in text and b"\\" not in text


_FIELDS = (b"", b"data", b"event", b"id", b"retry")


def _shown(raw: bytes) -> str:
    text = " ".join(raw.decode("utf-8", "replace").split())
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + " ..."
