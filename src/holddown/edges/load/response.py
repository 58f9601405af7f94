"""One HTTP response, from its raw reads to the times of its deltas. Any split of the bytes gives the same events.

Nearly all of a stream is not parsed: the events of one response differ in their text only, and what stands before and
behind the text is learned from the first of them.

Source: RFC 9112 section 7.1 (chunked) and 6.3 (where a body ends); https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from typing import Any

import msgspec

MIDDLE = b"\n\n\r\n"
"""The end of an event, and of the chunk that it is alone in."""

_SHOWN_CHARACTERS = 200
_MOST_HEAD_BYTES = 65536
_MOST_LEARNED = 8
_BACKSLASH = 0x5C


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
    """deltas: arrival of each event that carried text or a token. answer_at: of the first that was no reasoning. fault:
    why it cannot be measured. over: the last byte of it has come. closes: its connection carries no other."""

    __slots__ = (
        "_alike",
        "_behind",
        "_body",
        "_carry",
        "_event",
        "_learned",
        "_left",
        "_prefix",
        "_taken_at",
        "answer_at",
        "closes",
        "deltas",
        "done",
        "fault",
        "finished",
        "over",
        "status",
        "usage",
    )

    def __init__(self) -> None:
        self.deltas: list[float] = []
        self.answer_at: float | None = None
        self.usage: _Usage | None = None
        self.fault = ""
        self.over = False
        self.done = False
        self.finished = False
        self.closes = False
        self.status = 0
        self._taken_at = 0.0
        self._carry = b""  # of the raw bytes: what no step could be made of yet
        self._event = b""  # of the body: an event that is not whole
        self._body = "head"  # head, chunked, length, close
        self._left = 0  # bytes that are still to come of a body whose length is known
        # of an event with text: what stands before and behind it; by length of a read, what such a read begins with
        self._prefix = self._behind = b""
        self._alike: dict[int, bytes] = {}
        self._learned = 0

    @property
    def last_at(self) -> float:
        """When something last came; 0 for never."""
        return max(self._taken_at, self.deltas[-1]) if self.deltas else self._taken_at

    def take(self, read: bytes, at: float) -> bool:
        """What was read at that time. True when the response is over, or its first token has come.

        The hot path: a read that is one chunk with one event like one that was parsed before, but for its text, is not
        parsed. A text ends at its first quote; where a backslash stands before that, it is looked at closely.
        """
        before = self._alike.get(len(read))
        if before is not None and read.startswith(before):
            quote = read.find(b'"', len(before))
            if (
                quote > len(before)
                and read.endswith(self._behind)
                and quote + len(self._behind) == len(read)
                and read[quote - 1] != _BACKSLASH
            ):
                self.deltas.append(at)
                return False
        return self._parse(read, at)

    def _parse(self, read: bytes, at: float) -> bool:
        begun = bool(self.deltas)
        self._take_in(read, at)
        return self.over or bool(self.deltas) > begun

    def _take_in(self, read: bytes, at: float) -> None:
        self._taken_at = at
        if self._body == "head":
            read = self._take_head(self._carry + read)
        if not read or self._body == "head":
            return
        if self._body == "chunked":
            if self._expect_alike(read):
                self.take(read, at)
                return
            deltas = len(self.deltas)
            self._take_chunks(self._carry + read if self._carry else read, at)
            if self._carry or self._event:
                self._alike.clear()
            elif len(self.deltas) == deltas + 1 and self._learned < _MOST_LEARNED:
                self._learn(read)
            return
        if self._body == "length":
            self._left -= len(read)
            self.over = self._left <= 0
        self._take(read, at)

    def end(self) -> None:
        """The connection is closed."""
        if self._body == "close":
            if self._event:
                self._take(b"\n\n", self._taken_at)
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

    def _take_head(self, raw: bytes) -> bytes:
        """Gives what stands behind it; nothing where it is not whole."""
        head, blank, rest = raw.partition(b"\r\n\r\n")
        if not blank:
            self._carry = raw
            if len(raw) > _MOST_HEAD_BYTES or not b"HTTP/1.".startswith(raw[:7]):
                self._broken(f"this is not HTTP: {_shown(raw)}")
            return b""
        self._carry = b""
        lines = head.split(b"\r\n")
        words = lines[0].split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            self._broken(f"this is not HTTP: {_shown(head)}")
            return b""
        self.status = int(words[1])
        if 100 <= self.status < 200:
            return self._take_head(rest) if rest else b""
        fields = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])
        }
        self._frame(words[0], fields)
        self.over = self._body == "length" and self._left == 0
        return rest

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

    def _expect_alike(self, read: bytes) -> bool:
        """Whether a read of this length may be like one before, which was not known yet."""
        size = len(read)
        if not self._prefix or self._carry or self._event or size in self._alike:
            return False
        digits = next((count for count in range(1, 6) if len(b"%x" % max(0, size - count - 4)) == count), 0)
        self._alike[size] = b"%x\r\n%s" % (max(0, size - digits - 4), self._prefix)
        return True

    def _learn(self, read: bytes) -> None:
        """From a read that brought one delta: what stands before and behind its text, where it is one whole chunk with
        one event that has the text in a single string."""
        self._learned += 1
        size, _, rest = read.partition(b"\r\n")
        event = rest[6:-4]
        if b"%x" % (len(rest) - 2) != size or not rest.startswith(b"data: {") or rest[-4:] != MIDDLE or b"\n" in event:
            return
        for key in (b'"content":', b'"text":', b'"reasoning":', b'"reasoning_content":'):
            before, found, behind = rest.partition(key)
            quote = len(behind) - len(behind.lstrip(b" "))
            if not found or behind[quote : quote + 1] != b'"':
                continue
            begin = len(before) + len(key) + quote + 1
            end = rest.find(b'"', begin)
            text = rest[begin:end]
            if text and b"\\" not in text and self._is_its_text(event, text):
                self._prefix, self._behind = rest[:begin], rest[end:]
                self._alike.clear()
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
            if not self._is_known(raw, begin, end):
                self._take(raw[begin:end], at)
            else:
                self.deltas.append(at)
            done = end + 2
        self._carry = raw[done:]

    def _is_known(self, raw: bytes, begin: int, end: int) -> bool:
        """As in `take`, of a chunk among others."""
        text = begin + len(self._prefix)
        if not self._prefix or self._event or not raw.startswith(self._prefix, begin):
            return False
        quote = raw.find(b'"', text, end)
        return (
            quote > text
            and quote + len(self._behind) == end + 2
            and raw.startswith(self._behind, quote)
            and raw[quote - 1] != _BACKSLASH
        )

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


_FIELDS = (b"", b"data", b"event", b"id", b"retry")


def _shown(raw: bytes) -> str:
    text = " ".join(raw.decode("utf-8", "replace").split())
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + " ..."
