"""Tests the client over real agents, which share real servers.

    python3 -m unittest -v test_quorumlock       in this folder, after cargo build --features cli

QUORUMLOCK_BIN is the path of the command (default: the one in target/debug). QUORUMLOCK_NODES names the
servers. Without QUORUMLOCK_NODES, the tests start a sandbox. Tests wait for conditions, and not for fixed
times: PATIENCE is the longest wait.
"""

import asyncio
import errno
import gc
import os
import pathlib
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid
from unittest import mock

import quorumlock
from quorumlock import AlreadyDone, Invalid, Lost, NotAcquired, Unavailable, alock, lock

HERE = pathlib.Path(__file__).resolve().parent
QUORUMLOCK = os.environ.get("QUORUMLOCK_BIN") or str(HERE.parents[1] / "target/debug/quorumlock")
PATIENCE = 50
# The timeout of calls that must succeed. Long: a test must not fail because the machine stalls.
LONG = 2 * PATIENCE
# Long, since a lock is lost if the machine stalls for this time.
TTL = 12


def clock():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def until(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"never came true: {what}")
        time.sleep(0.005)


def deadline(held):
    return held._state.deadline


class Process:
    """A child process, and the lines that it writes."""

    def __init__(self, command, env=None, stderr=None):
        pipe = subprocess.PIPE
        self.child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stderr, text=True, env=env)
        self.lines = queue.Queue()
        self.reading = threading.Thread(target=self._read, daemon=True)
        self.reading.start()

    def _read(self):
        for line in self.child.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def line(self):
        try:
            line = self.lines.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"{self.child.args} says no more") from None
        if line is None:
            raise AssertionError(f"{self.child.args} ended with {self.child.wait()}")
        return line

    def says(self, start):
        """Waits for a line that begins with `start`, and returns the rest of this line."""
        while True:
            line = self.line()
            if line.startswith(start):
                return line[len(start):]

    def tell(self):
        """Lets a script's `told()` return."""
        self.child.stdin.write("\n")
        self.child.stdin.flush()

    def send(self, number):
        self.child.send_signal(number)
        if number == signal.SIGSTOP:
            until("it has stopped", lambda: self.state() == "T")

    def state(self):
        stat = pathlib.Path(f"/proc/{self.child.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0]

    def done(self):
        """Waits for the end of the process. Returns the exit code and the unread lines."""
        code = self.child.wait(PATIENCE)
        self.reading.join(PATIENCE)
        return code, [line for line in self.lines.queue if line is not None]

    def kill(self):
        self.child.kill()
        self.child.wait()
        self.reading.join(PATIENCE)
        self.child.stdin.close()
        self.child.stdout.close()


SCRIPT = """
import os, signal, sys, time
import quorumlock
signal.signal(signal.SIGINT, signal.default_int_handler)
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
def told():
    sys.stdin.readline()
def holds(held):
    say("holds", held.token, held._state.deadline)
name = sys.argv[1]
"""


class Agent(Process):
    """`quorumlock serve` on a socket of its own."""

    def __init__(self, folder, nodes, *options):
        self.socket = str(folder / "agent.sock")
        env = {name: value for name, value in os.environ.items() if name != "QUORUMLOCK_AGENT"}
        command = [QUORUMLOCK, "serve", "--socket", self.socket, *options]
        super().__init__(command, {**env, **nodes}, stderr=subprocess.STDOUT)
        self.addresses = self.says("quorumlock: listening on ").split(" and ")

    def status(self):
        return quorumlock._expect(quorumlock._ask(quorumlock._Address(self.socket), "GET", "/v1/status"))

    def count(self, what):
        """The number of `clients`, `locks` or `waiting` requests. The keeper of each lock is one of `waiting`."""
        return self.status()["agent"][what]


NODES = {}
SANDBOX = None


def setUpModule():
    global SANDBOX
    if "QUORUMLOCK_NODES" in os.environ:
        return
    SANDBOX = Process([QUORUMLOCK, "sandbox", "--masters", "3"])
    for variable in SANDBOX.says("export ").split(" "):
        name, _, value = variable.partition("=")
        NODES[name] = value


def tearDownModule():
    if SANDBOX:
        SANDBOX.kill()


class Case(unittest.TestCase):
    """Each test has a folder, an agent and a name of its own."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.name = f"test/{uuid.uuid4()}"
        self.agent = self.another_agent()

    def another_agent(self, *options):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        agent = Agent(folder, NODES, *options)
        self.addCleanup(agent.kill)
        return agent

    def lock(self, *names, agent=None, **options):
        """Acquires the test's lock, and releases it at the end of the test."""
        held = lock(*(names or (self.name,)), **{"timeout": LONG, "agent": (agent or self.agent).socket, **options})
        self.addCleanup(held.release)
        return held

    def is_taken(self, *names, **options):
        """Whether somebody else holds the names. Tries again if too few nodes answered."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self.lock(*names, timeout=0, **options).release()
                return False
            except NotAcquired:
                return True
            except Unavailable:
                if time.monotonic() > end:
                    raise

    def script(self, text, agent=None):
        """Starts a Python program that uses the agent."""
        env = {**os.environ, "QUORUMLOCK_AGENT": (agent or self.agent).socket, "PYTHONPATH": str(HERE)}
        process = Process([sys.executable, "-c", SCRIPT + text, self.name], env)
        self.addCleanup(process.kill)
        return process

    def acquired_before(self, end, **options):
        """Acquires the lock. Fails unless the lock was free before `end`, the deadline of its former holder."""
        self.lock(**options)
        self.assertLess(clock(), end)

    def acquired_after(self, former, **options):
        """Acquires the lock. Fails if the lock was free before the deadline of its former holder."""
        held = self.lock(**options)
        self.assertGreaterEqual(clock(), deadline(former))
        self.assertTrue(former.lost)
        self.assertGreater(held.token, former.token)


class Plain(Case):
    def test_lock_is_exclusive_and_tokens_grow(self):
        other = self.another_agent()
        with lock(self.name, timeout=LONG, agent=self.agent.socket) as held:
            self.assertFalse(held.lost)
            self.assertIsNone(held.loss)
            held.ensure(1)
            self.assertEqual(held.names, [self.name])
            self.assertEqual(held.tokens, {self.name: held.token})
            for agent in (self.agent, other):
                self.assertTrue(self.is_taken(agent=agent))
        self.assertEqual(held.remaining, 0)
        self.assertTrue(held.lost)
        self.assertEqual(held.loss.reason, "released")
        with self.assertRaises(Lost) as lost:
            held.ensure()
        self.assertEqual(lost.exception.reason, "released")
        later = self.lock(agent=other)
        self.assertGreater(later.token, held.token)

    def test_not_acquired_names_the_holder_and_the_note(self):
        self.lock(note="deploy #814")
        with self.assertRaises(NotAcquired) as held:
            lock(self.name, timeout=5, agent=self.another_agent().socket)
        self.assertIn("deploy #814", (held.exception.note or "") + str(held.exception))
        self.assertIn(socket.gethostname(), (held.exception.holder or "") + str(held.exception))

    def test_waiters_get_the_lock_in_order(self):
        first, order, waiters = self.lock(), [], []

        def wait(number):
            with lock(self.name, timeout=LONG, agent=self.agent.socket):
                order.append(number)

        for number in range(4):
            waiters.append(threading.Thread(target=wait, args=[number]))
            waiters[-1].start()
            until("it waits", lambda: self.agent.count("waiting") == 1 + number + 1)
        self.assertTrue(first.release())
        for waiter in waiters:
            waiter.join(PATIENCE)
        self.assertEqual(order, [0, 1, 2, 3])

    def test_lock_that_was_handed_over_has_half_of_its_ttl(self):
        first, left = self.lock(), []

        def wait():
            with lock(self.name, timeout=LONG, ttl=LONG, agent=self.agent.socket) as held:
                held.ensure(PATIENCE / 2)
                left.append(held.remaining)

        waiter = threading.Thread(target=wait)
        waiter.start()
        until("it waits", lambda: self.agent.count("waiting") == 2)
        self.assertTrue(first.release())
        waiter.join(PATIENCE)
        self.assertEqual(len(left), 1, "the lock had too little time")

    def test_several_names_are_held_together(self):
        names = [f"{self.name}/{part}" for part in "ab"]
        both = self.lock(*names)
        self.assertEqual(sorted(both.tokens), names)
        self.assertEqual([self.is_taken(name) for name in names], [True, True])
        both.release()
        self.lock(names[1])
        self.assertTrue(self.is_taken(*names))

    def test_readers_share_and_keep_writers_out(self):
        readers = [self.lock(shared=True) for _ in range(2)]
        self.assertTrue(self.is_taken())
        for reader in readers:
            reader.release()
        self.lock()
        self.assertTrue(self.is_taken(shared=True))

    def test_permits_have_numbers_and_an_end(self):
        held = [self.lock(permits=2) for _ in range(2)]
        self.assertEqual(sorted(permit.permit for permit in held), [0, 1])
        self.assertTrue(self.is_taken(permits=2))
        held[0].release()
        self.assertEqual(self.lock(permits=2).permit, held[0].permit)

    def test_lock_is_renewed_and_kept(self):
        held = self.lock(keep=30)
        for _ in range(2):
            former = deadline(held)
            until("its deadline moves", lambda: held.lost or deadline(held) > former + 1)
        self.assertFalse(held.lost, held.loss)
        self.assertTrue(self.is_taken())

    def test_body_error_is_not_replaced(self):
        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            with self.lock():
                self.agent.kill()
                raise ZeroDivisionError("mine")

    def test_body_error_releases(self):
        with self.assertRaises(ZeroDivisionError):
            with self.lock() as held:
                raise ZeroDivisionError
        self.acquired_before(deadline(held))

    def test_forgotten_lock_is_released(self):
        held = lock(self.name, timeout=LONG, ttl=PATIENCE, agent=self.agent.socket)
        end = deadline(held)
        del held
        gc.collect()
        self.acquired_before(end)

    def test_released_lock_is_not_entered_again(self):
        held = self.lock()
        with held:
            pass
        with self.assertRaises(Lost):
            with held:
                self.fail("the body has no lock")

    def test_lost_lock_is_released_and_not_entered(self):
        held = self.lock(ttl=PATIENCE)
        held._state.broke("as if the agent had closed the connection")
        with self.assertRaises(Lost):
            with held:
                self.fail("the body has no lock")
        self.acquired_before(deadline(held))

    def test_lack_of_files_is_unavailable_and_replaces_no_error(self):
        lack = mock.patch("socket.socket", side_effect=OSError(errno.EMFILE, "too many open files"))
        with lack, self.assertRaisesRegex(Unavailable, "too many open files"):
            self.lock()
        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            with self.lock() as held, lack:
                held.release()
                raise ZeroDivisionError("mine")
        self.acquired_before(deadline(held))

    def test_bad_values_are_invalid(self):
        for wrong in (dict(ttl=-1), dict(ttl=0), dict(keep=0), dict(timeout=float("nan")), dict(permits=0),
                      dict(agent="https://127.0.0.1:1"), dict(note="mine", shared=True), dict(note="mine", permits=2)):
            with self.assertRaises(Invalid, msg=wrong):
                lock(self.name, **{"agent": self.agent.socket, **wrong})
        for names in ((), ("",)):
            with self.assertRaises(Invalid):
                lock(*names, agent=self.agent.socket)

    def test_missing_agent_is_unavailable(self):
        with self.assertRaisesRegex(Unavailable, "no agent listens at /nowhere/agent.sock: start"):
            lock(self.name, agent="/nowhere/agent.sock")

    def test_missing_nodes_are_unavailable(self):
        lonely = Agent(pathlib.Path(tempfile.mkdtemp(dir=self.folder)), {"QUORUMLOCK_NODES": "redis://127.0.0.1:1"})
        self.addCleanup(lonely.kill)
        with self.assertRaises(Unavailable):
            lock(self.name, timeout=0.1, agent=lonely.socket)

    def test_tcp_address_and_variable(self):
        address = self.another_agent("--listen", "127.0.0.1:0").addresses[1]
        self.addCleanup(os.environ.pop, "QUORUMLOCK_AGENT")
        for os.environ["QUORUMLOCK_AGENT"] in (address, address.replace("127.0.0.1", "localhost")):
            with lock(self.name, timeout=LONG):
                self.assertTrue(self.is_taken())

    def test_many_threads_have_a_lock_each(self):
        failed = []

        def work(number):
            try:
                for _ in range(3):
                    with lock(f"{self.name}/{number}", timeout=LONG, agent=self.agent.socket):
                        pass
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=[number]) for number in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual(failed, [])


class Loss(Case):
    def test_revoked_lock_is_told_and_keeps_others_out(self):
        held = self.lock(ttl=PATIENCE)
        told = []
        waits = threading.Thread(target=lambda: told.append(held.wait_lost(LONG)))
        waits.start()
        command = [QUORUMLOCK, "release", self.name, "--force", "--yes"]
        subprocess.run(command, env={**os.environ, **NODES}, check=True, stdout=subprocess.DEVNULL)
        waits.join(PATIENCE)
        self.assertEqual((told, held.lost, held.loss.reason), ([True], True, "revoked"))
        self.assertTrue(self.is_taken())
        with self.assertRaises(Lost):
            with held:
                pass
        self.acquired_before(deadline(held))

    def test_lock_of_a_broken_connection_is_released(self):
        held = self.lock()
        held._state.broke("as if the agent had closed the connection")
        self.assertTrue(held.lost)
        self.assertTrue(held.release())

    def test_wait_lost_ends_with_a_release_and_with_its_timeout(self):
        held = self.lock()
        self.assertFalse(held.wait_lost(0.01))
        told = []
        waits = threading.Thread(target=lambda: told.append(held.wait_lost()))
        waits.start()
        held.release()
        waits.join(PATIENCE)
        self.assertEqual(told, [False])

    def test_killed_client_frees_the_lock_at_once(self):
        client = self.script(f"""
held = quorumlock.lock(name, timeout={LONG}, ttl={PATIENCE}, keep={LONG})
holds(held)
told()
""")
        end = client.says("holds ").split(" ")[1]
        client.kill()
        self.acquired_before(float(end))

    def test_killed_agent_is_told_at_once_and_nobody_else_holds(self):
        held, other = self.lock(ttl=TTL), self.another_agent()
        self.agent.kill()
        self.assertTrue(held.wait_lost(PATIENCE))
        self.assertEqual(held.loss.reason, "agent")
        self.acquired_after(held, agent=other)

    def test_stopped_client_loses_the_lock_and_knows_on_waking(self):
        client = self.script(f"""
held = quorumlock.lock(name, timeout={LONG}, keep=3)
holds(held)
told()
say("lost", held.lost)
""")
        client.says("holds ")
        client.send(signal.SIGSTOP)
        self.lock()
        client.tell()
        client.send(signal.SIGCONT)
        self.assertEqual(client.says("lost "), "True")

    def test_stopped_agent_has_no_client_past_its_ttl(self):
        held, other = self.lock(ttl=TTL), self.another_agent()
        self.agent.send(signal.SIGSTOP)
        self.acquired_after(held, agent=other)
        self.assertEqual(held.loss.reason, "deadline")
        begun = time.monotonic()
        self.assertFalse(held.release())
        self.assertLess(time.monotonic() - begun, quorumlock._ANSWER_SECONDS, "nobody waits for this release")
        self.agent.send(signal.SIGCONT)
        self.assertTrue(self.is_taken())

    def test_ending_agent_lets_its_clients_finish(self):
        held = self.lock(ttl=TTL)
        self.agent.send(signal.SIGTERM)
        until("new locks are refused", lambda: self.refuses(self.agent))
        self.assertFalse(held.lost)
        self.assertTrue(held.release())
        self.assertEqual(self.agent.done()[0], 0)

    def refuses(self, agent):
        try:
            lock(f"{self.name}/other", timeout=0, agent=agent.socket).release()
            return False
        except Unavailable:
            return True

    def test_fork_leaves_no_lock_in_the_child(self):
        client = self.script(f"""
held = quorumlock.lock(name, timeout={LONG}, ttl={PATIENCE}, keep={LONG})
child = os.fork()
if child == 0:
    say("child", held.lost, held.loss.reason, held.release())
    time.sleep({LONG})
    os._exit(0)
say("pid", child)
held.ensure()
holds(held)
told()
""")
        lines = sorted(client.line().split(" ") for _ in range(3))
        self.assertEqual([line[0] for line in lines], ["child", "holds", "pid"])
        self.addCleanup(os.kill, int(lines[2][1]), signal.SIGKILL)
        self.assertEqual(lines[0][1:], ["True", "forked", "False"])
        self.assertTrue(self.is_taken())
        client.child.kill()
        self.acquired_before(float(lines[1][2]))


class Interrupts(Case):
    def test_interrupted_wait_is_withdrawn(self):
        held = self.lock()
        client = self.script("""
try:
    quorumlock.lock(name, timeout=None)
except KeyboardInterrupt:
    say("interrupted")
told()
""")
        until("it waits", lambda: self.agent.count("waiting") == 2)
        client.send(signal.SIGINT)
        client.says("interrupted")
        until("only the keeper waits", lambda: self.agent.count("waiting") == 1)
        held.release()
        self.lock()

    def test_interrupted_body_releases(self):
        client = self.interrupted("holds(held); time.sleep(3600)")
        end = client.says("holds ").split(" ")[1]
        client.send(signal.SIGINT)
        client.says("interrupted")
        self.acquired_before(float(end))

    def test_interrupted_release_releases(self):
        client = self.interrupted("holds(held); told()")
        end = client.says("holds ").split(" ")[1]
        self.agent.send(signal.SIGSTOP)
        client.tell()
        # The second connection is that of the release. The stopped agent does not read its request.
        until("it releases", lambda: self.connections(client) == 2)
        client.send(signal.SIGINT)
        client.says("interrupted")
        self.agent.send(signal.SIGCONT)
        self.acquired_before(float(end))

    def interrupted(self, body):
        return self.script(f"""
try:
    with quorumlock.lock(name, timeout={LONG}, ttl={PATIENCE}, keep={LONG}) as held:
        {body}
except KeyboardInterrupt:
    say("interrupted")
told()
""")

    @staticmethod
    def connections(process):
        files = pathlib.Path(f"/proc/{process.child.pid}/fd")
        return sum("socket:" in os.readlink(file) for file in files.iterdir())


class Jobs(Case):
    def once(self):
        return quorumlock.once(self.name, 600, agent=self.agent.socket)

    def test_once_is_done_once(self):
        with self.once() as held:
            self.assertGreater(held.token, 0)
            with self.assertRaises(AlreadyDone):
                self.once()
        with self.assertRaises(AlreadyDone):
            self.once()

    def test_failed_job_may_be_tried_again(self):
        with self.assertRaises(ZeroDivisionError):
            with self.once():
                raise ZeroDivisionError
        with self.once():
            pass

    def test_failed_job_is_given_back_to_an_agent_without_room(self):
        full = self.another_agent("--max-clients", "1")
        with self.assertRaises(ZeroDivisionError):
            with quorumlock.once(self.name, 600, agent=full.socket):
                raise ZeroDivisionError
        with self.once():
            pass

    def test_job_that_never_began_may_be_tried_again(self):
        for what, error in (("threading.Thread.start", RuntimeError), ("quorumlock.Held.ensure", KeyboardInterrupt)):
            with mock.patch(what, side_effect=error), self.assertRaises(error):
                self.once()
        entered = self.once()
        with mock.patch("quorumlock.Held.ensure", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            with entered:
                self.fail("it was interrupted before")
        with self.once():
            pass

    def test_job_that_exits_is_done_if_it_exits_with_0(self):
        for code in (1, 0):
            with self.assertRaises(SystemExit):
                with self.once():
                    sys.exit(code)
        with self.assertRaises(AlreadyDone):
            self.once()

    def leader(self):
        """The leader's value, as another agent sees it."""
        try:
            seen = quorumlock.leader(self.name, agent=self.other.socket)
        except Unavailable:
            return "unknown"
        return seen and seen.value

    def test_leader_is_seen_and_followed(self):
        self.other = self.another_agent()
        agent = self.agent.socket
        until("nobody leads", lambda: self.leader() is None)
        with quorumlock.lead(self.name, "one:80", agent=agent) as leads:
            until("the leader is seen", lambda: self.leader() == "one:80")
            self.assertEqual(quorumlock.leader(self.name, agent=agent).token, leads.token)
            leads.announce("one:81")
            until("the new value is seen", lambda: self.leader() == "one:81")
            with self.assertRaises(NotAcquired):
                quorumlock.lead(self.name, timeout=0, agent=agent)
        until("nobody leads again", lambda: self.leader() is None)


class Asyncio(Case):
    def run_in_loop(self, body):
        async def bounded():
            await asyncio.wait_for(body(), PATIENCE)

        asyncio.run(bounded())

    def alock(self, *names, **options):
        return alock(*(names or (self.name,)), **{"timeout": LONG, "agent": self.agent.socket, **options})

    def test_lock_is_exclusive_and_released(self):
        async def body():
            async with self.alock() as held:
                held.ensure(1)
                with self.assertRaises(NotAcquired):
                    await self.alock(timeout=0.1)
                self.assertFalse(await held.wait_lost(0.01))
            self.assertTrue(held.lost)
            later = await self.alock()
            self.assertGreater(later.token, held.token)
            self.assertTrue(await later.release())

        self.run_in_loop(body)

    def test_keeper_does_not_overtake_a_release(self):
        limits, ask = [], quorumlock._AsyncConnection.ask

        async def noted(connection, method, path, body, limit):
            limits.append(limit)
            return await ask(connection, method, path, body, limit)

        async def body():
            async with self.alock() as held:
                pass
            await asyncio.wait([held._keeper])

        with mock.patch.object(quorumlock._AsyncConnection, "ask", noted):
            self.run_in_loop(body)
        # At the limit 0, the keeper would end the connection, and so the lock.
        self.assertNotIn(0, limits)

    def test_loss_is_told(self):
        async def body():
            with self.assertRaises(Lost):
                async with self.alock(ttl=TTL) as held:
                    self.agent.kill()
                    self.assertTrue(await held.wait_lost())
            self.assertEqual(held.loss.reason, "agent")

        self.run_in_loop(body)

    def test_shared_alock_is_refused(self):
        async def body():
            shared = self.alock()
            async with shared as held:
                with self.assertRaisesRegex(RuntimeError, "once"):
                    await asyncio.wait_for(shared.__aenter__(), 1)
                self.assertFalse(held.lost)

        self.run_in_loop(body)

    def test_keeper_that_is_cancelled_before_its_first_step_is_a_loss(self):
        async def body():
            held = await self.alock()
            held._keeper.cancel()
            self.assertTrue(await held.wait_lost(PATIENCE))
            self.assertEqual(held.loss.reason, "agent")
            await held.release()

        self.run_in_loop(body)

    def test_cancelled_wait_is_withdrawn(self):
        async def body():
            held = await self.alock()
            waits = asyncio.ensure_future(self.acquires())
            while self.agent.count("waiting") != 2:
                await asyncio.sleep(0.01)
            waits.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waits
            while self.agent.count("waiting") != 1:
                await asyncio.sleep(0.01)
            await held.release()

        self.run_in_loop(body)

    async def acquires(self):
        async with self.alock():
            await asyncio.sleep(LONG)

    def test_cancelled_body_releases(self):
        async def body():
            works = asyncio.ensure_future(self.acquires())
            while self.agent.count("locks") < 1:
                await asyncio.sleep(0.01)
            works.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await works
            self.assertEqual(self.agent.count("locks"), 0)

        self.run_in_loop(body)

    def test_forgotten_lock_is_released(self):
        async def body():
            held = await self.alock(ttl=PATIENCE)
            end = deadline(held)
            del held
            gc.collect()
            async with self.alock():
                self.assertLess(clock(), end)

        self.run_in_loop(body)

    def test_many_locks_at_once(self):
        async def body():
            async def work(number):
                async with self.alock(f"{self.name}/{number}"):
                    pass

            await asyncio.gather(*(work(number) for number in range(200)))

        self.run_in_loop(body)

    def test_once_and_lead(self):
        agent = self.agent.socket

        async def body():
            async with quorumlock.aonce(f"{self.name}/job", 600, agent=agent):
                pass
            with self.assertRaises(AlreadyDone):
                await quorumlock.aonce(f"{self.name}/job", 600, agent=agent)
            async with quorumlock.alead(self.name, "one", agent=agent) as leads:
                await leads.announce("two")
                while (await quorumlock.aleader(self.name, agent=agent)).value != "two":
                    await asyncio.sleep(0.01)

        self.run_in_loop(body)

    def test_job_that_never_began_may_be_tried_again(self):
        async def body():
            job = lambda: quorumlock.aonce(self.name, 600, agent=self.agent.socket)
            with mock.patch("quorumlock.AsyncHeld.ensure", side_effect=KeyError), self.assertRaises(KeyError):
                await job()
            async with job():
                pass

        self.run_in_loop(body)


if __name__ == "__main__":
    unittest.main()
