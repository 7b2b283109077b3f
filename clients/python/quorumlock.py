"""Locks across hosts, held by the agent of this host (`quorumlock serve`).

    import quorumlock

    with quorumlock.lock("orders/42", timeout=5) as held:
        for order in orders:
            held.ensure(2)                    # raises Lost unless 2 s of the lock are left
            write(order, token=held.token)    # the storage refuses a token lower than an earlier one

`alock`, `aonce`, `alead` and `aleader` are the same calls for asyncio.

If the process dies, the kernel closes the connection to the agent, and the agent releases the lock. A
thread (with asyncio, a task) tells the agent every few seconds that the process lives: a process that
stands still for `keep` seconds loses the lock. `held.lost` becomes true before anybody else can get the
lock, even if the agent is killed or stopped. Stop the work then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import threading
import time
import weakref
from functools import partial
from types import TracebackType
from typing import (Any, Awaitable, Callable, Dict, Generator, Generic, Iterator, List, Mapping, NamedTuple, Optional,
                    Sequence, Set, Tuple, Type, TypeVar, Union)
from urllib.parse import quote, urlsplit

__all__ = [
    "AlreadyDone", "AsyncHeld", "AsyncLeading", "Error", "Held", "Invalid", "Leader", "Leading", "Lost", "NotAcquired",
    "Unavailable", "alead", "aleader", "alock", "aonce", "lead", "leader", "lock", "once",
]

# How long the agent may take for an answer, in addition to the timeout in the request.
_ANSWER_SECONDS = 15.0
_KEEP_SECONDS = 30.0
# How long the agent may take to release a lost lock. Short, since the result no longer matters.
_LATE_SECONDS = 1.0
# The timeout in a request with `timeout=None`: a year.
_FOREVER_MS = 365 * 86_400_000
_MAX_ANSWER = 1024 * 1024
_HEAD = re.compile(rb"HTTP/1\.\d (\d{3})\b.*\r\ncontent-length: *(\d+)\r\n", re.DOTALL | re.IGNORECASE)


class Error(Exception):
    """Any error of this module."""


class NotAcquired(Error):
    """Others hold the lock. `holder` and `note` describe them, if the agent reports this."""

    def __init__(self, message: str, holder: Optional[str] = None, note: Optional[str] = None) -> None:
        super().__init__(message)
        self.holder = holder
        self.note = note


class AlreadyDone(NotAcquired):
    """The job of `once` was done in this period, or is being done."""


class Unavailable(Error):
    """Nobody can tell who holds the lock: no agent, too few nodes, or a limit of the agent."""


class Invalid(Error, ValueError):
    """A name, an option or an address is invalid. Another try fails too."""


class Lost(Error):
    """The lock was held, and is lost. `reason` is one word.

    Reasons of the agent are `expired`, `revoked`, `forgotten`, `not_kept` and others. The client adds
    `unknown` (the agent does not know the lock, or does not know why it ended), `deadline` (the time
    of the lock is over), `agent` (the connection broke), `released`, and `forked` (this process is a
    child of the holder).
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Leader(NamedTuple):
    """Who leads an election."""

    value: str
    token: int
    holder: str


def _clock() -> float:
    """The time in seconds. If the system has such a clock, it runs on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


try:
    _clock()
except (AttributeError, OSError):
    _clock = time.monotonic


# A child made by a fork must not keep a copy of a lock's connection open: if the parent died, the agent
# would not notice it. `_forking` is held during a fork, and while a socket is made and listed: so no
# fork happens between the two, and the child finds each socket in the list.
_forking = threading.RLock()
_sockets: weakref.WeakSet[_Socket] = weakref.WeakSet()
_states: weakref.WeakSet[_State] = weakref.WeakSet()


def _forked() -> None:
    for connection in list(_sockets):
        connection.guard = threading.RLock()
        connection.socket.close()
    for state in list(_states):
        state.changed = threading.Condition()
        state.end("forked", "the lock belongs to the process that acquired it, and this is its child")
        state.released = True
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_forking.acquire, after_in_parent=_forking.release, after_in_child=_forked)


class _Address:
    """Where the agent listens: a path, or a host and a port."""

    def __init__(self, agent: Optional[str]) -> None:
        text = agent or os.environ.get("QUORUMLOCK_AGENT") or _default_path()
        self.text = text
        self.family: int = socket.AF_UNIX
        self.target: Union[str, Tuple[str, int]] = text
        self.host = "agent"
        if "://" in text:
            parts = urlsplit(text)
            try:
                port = parts.port
            except ValueError:
                port = None
            if parts.scheme != "http" or not parts.hostname or not port or parts.path.strip("/"):
                raise Invalid(f"{text!r} is no address of an agent: use a path, or http://127.0.0.1:PORT")
            self.family = socket.AF_INET6 if ":" in parts.hostname else socket.AF_INET
            self.target = (parts.hostname, port)
            # Over TCP, the agent checks the header `Host`.
            self.host = parts.netloc.lower()

    @contextlib.contextmanager
    def asked(self) -> Iterator[None]:
        """Turns errors of a connection into `Unavailable`."""
        try:
            yield
        except (FileNotFoundError, ConnectionRefusedError) as error:
            advice = "start `quorumlock serve`, or set QUORUMLOCK_AGENT to its socket"
            raise Unavailable(f"no agent listens at {self.text}: {advice}") from error
        except PermissionError as error:
            advice = "start the agent with --socket-group, and run this program in that group"
            raise Unavailable(f"this user may not use the agent at {self.text}: {advice}") from error
        except (OSError, EOFError, ValueError) as error:
            raise Unavailable(f"the agent at {self.text} does not answer: {error}") from error


def _default_path() -> str:
    own = os.path.join(os.environ.get("XDG_RUNTIME_DIR") or "/nowhere", "quorumlock.sock")
    return own if os.path.exists(own) else "/run/quorumlock/agent.sock"


class _Socket:
    """A socket to the agent. Any thread may call `end`."""

    def __init__(self, address: _Address) -> None:
        self.address = address
        self.guard = threading.RLock()
        with _forking, address.asked():
            self.socket = socket.socket(address.family, socket.SOCK_STREAM)
            _sockets.add(self)

    def _connected(self, end: float) -> bool:
        """Connects. Returns false if the queue of the agent's Unix socket is full: then try again soon."""
        try:
            self.socket.connect(self.address.target)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            return False

    def end(self) -> None:
        """Shuts the connection down: the agent releases the lock, and a thread that reads gets an end of file."""
        with self.guard:
            try:
                self.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        with self.guard:
            self.end()
            self.socket.close()


# The status and the JSON object of an answer.
_Answer = Tuple[int, Dict[str, Any]]


def _request(host: str, method: str, path: str, body: Optional[Mapping[str, Any]]) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n"
    if body is not None or method != "GET":
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    return head.encode("ascii") + b"\r\n" + content


def _answer(got: bytes) -> Optional[_Answer]:
    """The answer, or `None` if some of its bytes are missing."""
    head, end, body = got.partition(b"\r\n\r\n")
    if len(got) > _MAX_ANSWER:
        raise ValueError("the answer is too long")
    if not end:
        return None
    found = _HEAD.match(head + b"\r\n")
    if not found:
        raise ValueError("the answer is not HTTP, or has no length")
    if len(body) < int(found[2]):
        return None
    try:
        content = json.loads(body or b"{}")
    except ValueError:
        content = None
    if not isinstance(content, dict):
        content = {"message": body.decode(errors="replace").strip()}
    return int(found[1]), content


class _Connection(_Socket):
    """A connection for blocking calls. It carries one request at a time."""

    def __init__(self, address: _Address) -> None:
        super().__init__(address)
        try:
            with address.asked():
                self.socket.settimeout(_ANSWER_SECONDS)
                end = time.monotonic() + _ANSWER_SECONDS
                while not self._connected(end):
                    time.sleep(0.005)
        except BaseException:
            self.close()
            raise

    def ask(self, method: str, path: str, body: Optional[Mapping[str, Any]], limit: Optional[float]) -> _Answer:
        end = None if limit is None else time.monotonic() + limit
        with self.address.asked():
            self._limit(end)
            self.socket.sendall(_request(self.address.host, method, path, body))
            got, answer = b"", None
            while answer is None:
                self._limit(end)
                more = self.socket.recv(65536)
                if not more:
                    raise EOFError("it closed the connection")
                got += more
                answer = _answer(got)
            return answer

    def _limit(self, end: Optional[float]) -> None:
        left = None if end is None else end - time.monotonic()
        if left is not None and left <= 0:
            raise socket.timeout("timed out")
        self.socket.settimeout(left)


class _AsyncConnection(_Socket):
    """A connection for asyncio."""

    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, address: _Address) -> _AsyncConnection:
        connection = cls(address)
        connection.socket.setblocking(False)
        loop, end = asyncio.get_running_loop(), time.monotonic() + _ANSWER_SECONDS
        timer = loop.call_later(_ANSWER_SECONDS, connection.end)
        try:
            with address.asked():
                if address.family == socket.AF_UNIX:
                    while not connection._connected(end):
                        await asyncio.sleep(0.005)
                else:
                    await loop.sock_connect(connection.socket, address.target)
                connection._reader, connection._writer = await asyncio.open_connection(sock=connection.socket)
        except BaseException:
            connection.close()
            raise
        finally:
            timer.cancel()
        return connection

    async def ask(self, method: str, path: str, body: Optional[Mapping[str, Any]], limit: Optional[float]) -> _Answer:
        # At the limit, end the connection. asyncio.wait_for would not do: it may swallow a cancellation.
        timer = None if limit is None else asyncio.get_running_loop().call_later(max(limit, 0), self.end)
        try:
            with self.address.asked():
                self._writer.write(_request(self.address.host, method, path, body))
                got, answer = b"", None
                while answer is None:
                    more = await self._reader.read(65536)
                    if not more:
                        raise EOFError("it closed the connection, or the time is over")
                    got += more
                    answer = _answer(got)
                return answer
        finally:
            if timer:
                timer.cancel()

    def leave(self) -> None:
        """Ends the connection and its transport. Call this only in the loop's thread."""
        self.end()
        self._writer.close()


class _State:
    """The state of a lock. `Held` and the keeper share it.

    The keeper is the thread or task that keeps the lock. It has no reference to the `Held`, so Python
    can collect a `Held` that the program has dropped, and the finalizer then releases the lock.
    """

    def __init__(self, path: str, deadline: float) -> None:
        self.path = path
        self.deadline = deadline
        self.loss: Optional[Tuple[str, str]] = None
        self.released = False
        self.changed = threading.Condition()
        self._left: Set[str] = set()
        with _forking:
            _states.add(self)

    def remaining(self) -> float:
        if self.released or self.loss:
            return 0.0
        left = self.deadline - _clock()
        if left <= 0:
            self.end("deadline", "the time of the lock is over, and the agent did not say that it is still held")
        return max(left, 0.0)

    def lost(self) -> bool:
        self.remaining()
        return self.loss is not None

    def end(self, reason: str, message: str) -> None:
        """Notes a loss, unless an earlier loss or a release was noted."""
        if self.loss is None and not self.released:
            self.loss = (reason, message)
        with self.changed:
            self.changed.notify_all()

    def leave(self, who: str) -> bool:
        """Notes that the `keeper` or the `holder` does not use the connection any more. Returns whether both have left.

        The last of the two closes the connection. A socket must not be closed while a thread reads it: another file
        could get its number. But the connection must be closed in the end: until then, the agent keeps a lost lock
        from others.
        """
        with self.changed:
            self._left.add(who)
            self.changed.notify_all()
            return len(self._left) == 2

    def heard(self, sent: float, answer: _Answer) -> bool:
        """Handles an answer about the lock. `sent` is when its request was sent. Returns false for a failed request."""
        status, content = answer
        if status == 200:
            if not self.lost():
                self.deadline = max(self.deadline, sent + content.get("until_ms", 0) / 1000)
        elif status in (404, 410):
            self.end(*_loss(content))
        return status in (200, 404, 410)

    def broke(self, why: object) -> None:
        """Notes that the lock cannot be kept any more. So the lock is lost, unless it was released."""
        if not self.lost():
            self.end("agent", str(why))

    def nap(self, end: Optional[float]) -> float:
        """How long one wait for the loss may last. Short, since waits stand still while the machine is suspended."""
        left = min(1.0, self.remaining())
        return left if end is None else min(left, end - time.monotonic())

    def requests(self) -> List[Tuple[str, str]]:
        """The two requests that the keeper repeats: wait for the loss, then say that the process lives."""
        wait = max(1, int(self.remaining() * 1000 / 3))
        return [("GET", f"{self.path}?wait_ms={wait}"), ("POST", f"{self.path}/keep")]

    def error(self) -> Lost:
        reason, message = self.loss or ("released", "the lock was released")
        return Lost(reason, message)


def _message(content: Mapping[str, Any], otherwise: str) -> str:
    return str(content.get("message") or content.get("error") or otherwise)


def _loss(content: Mapping[str, Any]) -> Tuple[str, str]:
    reason = str(content.get("reason", "unknown"))
    return reason, _message(content, "the agent does not know the lock any more")


def _refusal(answer: _Answer) -> Error:
    status, content = answer
    message = _message(content, f"the agent answered {status}")
    if status == 409:
        kind = AlreadyDone if content.get("error") == "done" else NotAcquired
        return kind(message, content.get("holder"), content.get("note"))
    if status == 400:
        return Invalid(message)
    if status in (404, 410):
        return Lost(*_loss(content))
    return Unavailable(message)


class _Ask:
    """A request for a lock."""

    def __init__(
        self, agent: Optional[str], path: str, timeout: Optional[float], ttl: Optional[float], keep: Optional[float],
        **fields: Any,
    ) -> None:
        self.address = _Address(agent)
        self.path = path
        self.limit = None if timeout is None else timeout + _ANSWER_SECONDS
        kept = next(seconds for seconds in (keep, ttl, _KEEP_SECONDS) if seconds is not None)
        fields["keep_ms"] = _ms("keep", kept)
        fields["ttl_ms"] = None if ttl is None else _ms("ttl", ttl)
        self.body = {name: value for name, value in fields.items() if value is not None}


def _ms(what: str, seconds: float) -> int:
    if not 0 <= seconds < 1e9:
        raise Invalid(f"{what} is {seconds!r} seconds")
    return round(seconds * 1000)


def _wait_ms(timeout: Optional[float]) -> int:
    return _FOREVER_MS if timeout is None else _ms("timeout", timeout)


def _lock(
    names: Sequence[str], timeout: Optional[float], ttl: Optional[float], shared: bool, permits: Optional[int],
    note: Optional[str], fair: bool, keep: Optional[float], agent: Optional[str],
) -> _Ask:
    return _Ask(
        agent, "/v1/locks", timeout, ttl, keep, names=names, timeout_ms=_wait_ms(timeout),
        mode="shared" if shared else None, permits=permits, note=note, fair=fair,
    )


def _once(
    name: str, period: float, ttl: Optional[float], note: Optional[str], keep: Optional[float], agent: Optional[str],
) -> _Ask:
    return _Ask(agent, "/v1/once", 0, ttl, keep, name=name, period_ms=_ms("period", period), note=note)


def _election(name: str) -> str:
    return f"/v1/elections/{quote(name, safe='')}"


def _lead(
    name: str, value: str, timeout: Optional[float], ttl: Optional[float], keep: Optional[float], agent: Optional[str],
) -> _Ask:
    return _Ask(agent, _election(name), timeout, ttl, keep, value=value, timeout_ms=_wait_ms(timeout))


def _expect(answer: _Answer) -> Dict[str, Any]:
    if answer[0] != 200:
        raise _refusal(answer)
    return answer[1]


def _leader(answer: _Answer) -> Optional[Leader]:
    found = _expect(answer).get("leader")
    return found and Leader(found.get("value") or "", found["token"], found.get("holder") or "")


class _Holding:
    """What `Held` and `AsyncHeld` have in common."""

    def __init__(self, ask: _Ask, sent: float, answer: _Answer) -> None:
        content = _expect(answer)
        self._address, self._path = ask.address, ask.path
        self._state = _State(f"/v1/locks/{content['id']}", sent + content["until_ms"] / 1000)
        self.token: int = content["token"]
        """The fencing token: send it with every write."""
        self.names: List[str] = content["names"]
        self.tokens: Dict[str, int] = content["tokens"]
        """The token of each name."""
        self.permit: Optional[int] = content.get("permit")
        """The number of the permit, from 0 to `permits` - 1."""

    @property
    def lost(self) -> bool:
        """Whether the lock is lost or released, or its time is over. Never becomes false again."""
        return self._state.lost() or self._state.released

    @property
    def loss(self) -> Optional[Lost]:
        """Why `lost` is true (`reason` may be `released`), or `None` if it is false."""
        return self._state.error() if self.lost else None

    @property
    def remaining(self) -> float:
        """For how many seconds nobody else can get the lock, or 0 after a loss. Grows with each renewal."""
        return self._state.remaining()

    def ensure(self, seconds: float = 0.0) -> None:
        """Raises `Lost` if less than `seconds` of the lock are left.

        Normally, at least half of `keep` and of the ttl is left.
        """
        left = self._state.remaining()
        if self._state.loss or self._state.released:
            raise self._state.error()
        if left < seconds:
            raise Lost("deadline", f"only {left:.3f} s of the lock are left, not {seconds} s")

    def _begin_release(self, undo: bool) -> Optional[str]:
        """The path that releases the lock, or `None` if there is nothing to release."""
        state = self._state
        state.lost()  # Notes a deadline that has passed.
        if state.released:
            return None
        # Release a lost lock too: until its release or its deadline, the agent keeps others out.
        # From here on, the keeper's answers must not count as a loss: the release ends the lock.
        state.released = True
        return state.path + ("?undo=1" if undo else "")

    def _patience(self) -> float:
        """How long a release waits for its answer."""
        return _LATE_SECONDS if self._state.loss else _ANSWER_SECONDS

    def _confirmed(self, answer: _Answer) -> bool:
        status, content = answer
        if status in (404, 410):
            self._state.loss = self._state.loss or _loss(content)
        return status == 200 and bool(content.get("released"))

    def _announcement(self) -> str:
        return f"{self._path}/{self._state.path.rpartition('/')[2]}"


def _failed(error: Optional[BaseException]) -> bool:
    """Whether a body failed. If so, others may try its job of `once` again."""
    return error is not None and not (isinstance(error, SystemExit) and error.code in (None, 0))


_H = TypeVar("_H", bound="Held")
_A = TypeVar("_A", bound="AsyncHeld")


class Held(_Holding):
    """A lock that is held. Use it in a `with` statement, or call `release`.

    The `with` statement releases the lock. If the lock was lost before the body ended, the statement
    raises `Lost`, unless the body raises an error of its own.
    """

    def __init__(self, ask: _Ask) -> None:
        self._connection = connection = _Connection(ask.address)
        give_back: Callable[[], object] = connection.close
        try:
            sent = _clock()
            answer = connection.ask("POST", ask.path, ask.body, ask.limit)
            super().__init__(ask, sent, answer)
            # Releases the lock if the caller is interrupted or drops the `Held`.
            weakref.finalize(self, _let_go, self._state, connection)
            give_back = partial(self._end, undo=True)
            threading.Thread(target=_keep, args=(self._state, connection), name="quorumlock", daemon=True).start()
            self.ensure()
        except BaseException:
            give_back()
            raise

    def __enter__(self: _H) -> _H:
        try:
            self.ensure()
            return self
        except BaseException:
            self._end(undo=True)
            raise

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._end(_failed(error))
        if kind is None and self._state.loss:
            raise self._state.error()

    def release(self) -> bool:
        """Releases the lock. Returns whether a quorum of nodes has confirmed the release.

        Without this confirmation, nodes may hold the lock until its ttl ends.
        """
        return self._end(undo=False)

    def wait_lost(self, timeout: Optional[float] = None) -> bool:
        """Waits until the lock is lost or released, for `timeout` seconds at most. Returns whether it is lost."""
        state, end = self._state, None if timeout is None else time.monotonic() + timeout
        with state.changed:
            while not state.lost() and not state.released:
                left = state.nap(end)
                if left <= 0:
                    break
                state.changed.wait(left)
        return state.lost()

    def _end(self, undo: bool) -> bool:
        try:
            path = self._begin_release(undo)
            # Use another connection: on the lock's own one, the keeper may wait for an answer.
            return path is not None and self._confirmed(_ask(self._address, "DELETE", path, limit=self._patience()))
        except Unavailable:
            return False
        finally:
            # If the lines above failed or were interrupted, this releases the lock.
            _let_go(self._state, self._connection)


class Leading(Held):
    """The lead of an election."""

    def announce(self, value: str) -> None:
        """Changes the value that `leader` shows to others."""
        _expect(_ask(self._address, "PUT", self._announcement(), {"value": value}))


def _ask(
    address: _Address, method: str, path: str, body: Optional[Mapping[str, Any]] = None, limit: float = _ANSWER_SECONDS,
) -> _Answer:
    with contextlib.closing(_Connection(address)) as connection:
        return connection.ask(method, path, body, limit)


def _let_go(state: _State, connection: _Connection) -> None:
    state.released = True
    connection.end()
    if state.leave("holder"):
        connection.close()


def _keep(state: _State, connection: _Connection) -> None:
    """The thread of a lock: says that the process lives, and waits for the loss."""
    try:
        while state.remaining() > 0:
            for method, path in state.requests():
                sent, limit = _clock(), state.remaining()
                if limit == 0:
                    break
                # The limit is the deadline: a later answer would change nothing.
                if not state.heard(sent, connection.ask(method, path, None, limit)):
                    time.sleep(min(0.5, state.remaining() / 3))
    except Exception as error:
        state.broke(error)
    finally:
        state.broke("the thread that keeps the lock has ended")
        if state.leave("keeper"):
            connection.close()


def lock(
    *names: str, timeout: Optional[float] = 15.0, ttl: Optional[float] = None, shared: bool = False,
    permits: Optional[int] = None, note: Optional[str] = None, fair: bool = True, keep: Optional[float] = None,
    agent: Optional[str] = None,
) -> Held:
    """Acquires a lock: with several names, all of them or none.

    `timeout`: how long to wait for the lock, in seconds. 0 tries once, and `None` sets no limit.
    `ttl`: after this time, nodes free the lock if the agent has died (default: the agent's, 30 s).
    `shared`: acquires as a reader, beside other readers.
    `permits`: the largest number of callers that may hold the name at a time.
    `note`: a text that others see. Invalid with `shared` and with `permits`.
    `fair`: whether to wait in the queue. Callers with `fair=False` try at random times.
    `keep`: for how long the process may stand still and keep the lock (default: the ttl, or 30 s).
    `agent`: a path, or http://127.0.0.1:PORT (default: QUORUMLOCK_AGENT, or the default socket).

    Raises `NotAcquired` if others hold the lock, `Unavailable` if nobody can tell, `Invalid` for bad values.
    """
    return Held(_lock(names, timeout, ttl, shared, permits, note, fair, keep, agent))


def once(
    name: str, period: float, *, ttl: Optional[float] = None, note: Optional[str] = None,
    keep: Optional[float] = None, agent: Optional[str] = None,
) -> Held:
    """Acquires the right to do a job once in `period` seconds, however many hosts try.

    Raises `AlreadyDone` if another caller had this right in this period. If the body of the `with`
    statement raises an error, another caller may try (`sys.exit(0)` is no error). If the process dies,
    the job counts as done.
    """
    return Held(_once(name, period, ttl, note, keep, agent))


def lead(
    name: str, value: str = "", *, timeout: Optional[float] = None, ttl: Optional[float] = None,
    keep: Optional[float] = None, agent: Optional[str] = None,
) -> Leading:
    """Waits until this process leads the election. Calls of `leader` return `value` from then on."""
    return Leading(_lead(name, value, timeout, ttl, keep, agent))


def leader(name: str, *, agent: Optional[str] = None) -> Optional[Leader]:
    """Who leads the election, or `None` if nobody does."""
    return _leader(_ask(_Address(agent), "GET", _election(name)))


class AsyncHeld(_Holding):
    """As `Held`, for asyncio."""

    _connection: _AsyncConnection
    _keeper: asyncio.Task[None]

    @classmethod
    async def _acquired(cls: Type[_A], ask: _Ask) -> _A:
        connection = await _AsyncConnection.open(ask.address)
        held = None
        try:
            sent = _clock()
            answer = await connection.ask("POST", ask.path, ask.body, ask.limit)
            held = cls(ask, sent, answer)
            held._connection = connection
            held._keeper = asyncio.ensure_future(_akeep(held._state, connection))
            # Not in `_akeep`: a task that is cancelled before its first step runs none of its code. The
            # callback must not refer to `held`, or else Python would never collect `held`.
            held._keeper.add_done_callback(partial(_akept, held._state))
            # The finalizer may run in any thread. The keeper then notices the end of the connection.
            weakref.finalize(held, connection.end)
            held.ensure()
            return held
        except BaseException:
            if held:
                await held._end(undo=True)
            connection.leave()
            raise

    async def release(self) -> bool:
        """As `Held.release`."""
        return await self._end(undo=False)

    async def wait_lost(self, timeout: Optional[float] = None) -> bool:
        """As `Held.wait_lost`."""
        state, end = self._state, None if timeout is None else time.monotonic() + timeout
        while not state.lost() and not state.released:
            left = state.nap(end)
            if left <= 0:
                break
            await asyncio.wait([self._keeper], timeout=left)
        return state.lost()

    async def _end(self, undo: bool) -> bool:
        try:
            path = self._begin_release(undo)
            return path is not None and self._confirmed(await _aask(self._address, "DELETE", path, limit=self._patience()))
        except Unavailable:
            return False
        finally:
            self._state.released = True
            self._connection.leave()


class AsyncLeading(AsyncHeld):
    """The lead of an election."""

    async def announce(self, value: str) -> None:
        """As `Leading.announce`."""
        _expect(await _aask(self._address, "PUT", self._announcement(), {"value": value}))


async def _aask(
    address: _Address, method: str, path: str, body: Optional[Mapping[str, Any]] = None, limit: float = _ANSWER_SECONDS,
) -> _Answer:
    connection = await _AsyncConnection.open(address)
    try:
        return await connection.ask(method, path, body, limit)
    finally:
        connection.leave()


async def _akeep(state: _State, connection: _AsyncConnection) -> None:
    """The task of a lock, as `_keep`."""
    while state.remaining() > 0:
        for method, path in state.requests():
            sent, limit = _clock(), state.remaining()
            # With the limit 0, `ask` would end the connection, and overtake a release that is under way.
            if limit == 0:
                break
            if not state.heard(sent, await connection.ask(method, path, None, limit)):
                await asyncio.sleep(min(0.5, state.remaining() / 3))


def _akept(state: _State, keeper: asyncio.Task[None]) -> None:
    state.broke("the task that keeps the lock was cancelled" if keeper.cancelled() else keeper.exception())


class _Acquiring(Generic[_A]):
    """`async with` acquires the lock and releases it; `await` only acquires it."""

    def __init__(self, kind: Type[_A], ask: _Ask) -> None:
        self._start: Callable[[], Awaitable[_A]] = lambda: kind._acquired(ask)
        self._held: Optional[_A] = None
        self._used = False

    def __await__(self) -> Generator[Any, None, _A]:
        return self._start().__await__()

    async def __aenter__(self) -> _A:
        if self._used:
            raise RuntimeError("use each alock(..) once: call alock(..) again for another `async with`")
        self._used = True
        self._held = await self._start()
        return self._held

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        held = self._held
        assert held is not None
        await held._end(_failed(error))
        if kind is None and held._state.loss:
            raise held._state.error()


def alock(
    *names: str, timeout: Optional[float] = 15.0, ttl: Optional[float] = None, shared: bool = False,
    permits: Optional[int] = None, note: Optional[str] = None, fair: bool = True, keep: Optional[float] = None,
    agent: Optional[str] = None,
) -> _Acquiring[AsyncHeld]:
    """As `lock`: `async with alock(..) as held:`, or `held = await alock(..)`."""
    return _Acquiring(AsyncHeld, _lock(names, timeout, ttl, shared, permits, note, fair, keep, agent))


def aonce(
    name: str, period: float, *, ttl: Optional[float] = None, note: Optional[str] = None,
    keep: Optional[float] = None, agent: Optional[str] = None,
) -> _Acquiring[AsyncHeld]:
    """As `once`."""
    return _Acquiring(AsyncHeld, _once(name, period, ttl, note, keep, agent))


def alead(
    name: str, value: str = "", *, timeout: Optional[float] = None, ttl: Optional[float] = None,
    keep: Optional[float] = None, agent: Optional[str] = None,
) -> _Acquiring[AsyncLeading]:
    """As `lead`."""
    return _Acquiring(AsyncLeading, _lead(name, value, timeout, ttl, keep, agent))


async def aleader(name: str, *, agent: Optional[str] = None) -> Optional[Leader]:
    """As `leader`."""
    return _leader(await _aask(_Address(agent), "GET", _election(name)))
