"""A worker process of the chaos test that uses the agent: worker.py --worker SEED STORAGE AGENT

As tests/chaos/worker.rs: its tasks contend for a few names, work while they hold a lock, and report what they
believe, as tests/chaos/told.rs parses it. Three tasks are threads; the fourth is a thread with an event loop.
"""

import asyncio
import os
import random
import signal
import socket
import sys
import threading
import time

import quorumlock

NAMES = ["orders", "stock", "mail"]
TTL = 2.0
TASKS = 4


def clock():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Worker:
    def __init__(self, task, seed, storage, agent):
        self.task, self.agent = task, agent
        self.random = random.Random(seed * 31 + task)
        self.storage = socket.create_connection(("127.0.0.1", storage)).makefile("rw", buffering=1)

    def tell(self, *words):
        try:
            os.write(1, (" ".join(map(str, (self.task, *words))) + "\n").encode())
        except OSError:
            pass  # the test has ended

    def write(self, name, held):
        self.storage.write(f"{name} {held.token}\n")
        self.storage.readline()
        self.look(held)

    def look(self, held):
        at = clock()
        if not held.lost:
            self.tell("still", at, deadline(held))

    def patience(self):
        """By chance: a try, a call that soon gives up, or one that waits."""
        return self.random.choices([0, self.random.uniform(0, 0.02), 2 * TTL], [15, 15, 70])[0]

    def missed(self):
        self.tell("missed")
        return self.random.uniform(0.001, 0.02)

    def begins(self, name, held):
        at = clock()
        if held.lost:
            return False
        self.tell("believed", name, held.token, at, deadline(held))
        self.write(name, held)
        return True

    def length(self):
        return self.random.choices(
            [self.random.uniform(0, 0.004), self.random.uniform(0.004, 0.1), self.random.uniform(0.1, 3 * TTL)],
            [80, 17, 3],
        )[0]

    def told(self, held):
        self.tell("told", int(held.loss.reason == "deadline"), clock())

    def ends(self, name, held):
        if self.random.random() < 1 / 300:
            # Stop between the check and the write: only fencing tokens protect the storage here.
            self.tell("stopping")
            os.kill(os.getpid(), signal.SIGSTOP)
        self.write(name, held)
        at = clock()
        if not held.lost:
            self.tell("released", at)

    def run(self):
        while True:
            name = self.random.randrange(len(NAMES))
            try:
                held = quorumlock.lock(NAMES[name], timeout=self.patience(), ttl=TTL, agent=self.agent)
            except (quorumlock.NotAcquired, quorumlock.Unavailable, quorumlock.Lost):
                time.sleep(self.missed())
                continue
            self.section(name, held)
            # Drop one lock in ten without a release.
            if self.random.random() < 0.9:
                held.release()
            del held

    def section(self, name, held):
        if not self.begins(name, held):
            return
        end = time.monotonic() + self.length()
        while time.monotonic() < end:
            if held.wait_lost(min(0.01, max(0, end - time.monotonic()))):
                return self.told(held)
            self.look(held)
        self.ends(name, held)

    async def arun(self):
        while True:
            name = self.random.randrange(len(NAMES))
            try:
                held = await quorumlock.alock(NAMES[name], timeout=self.patience(), ttl=TTL, agent=self.agent)
            except (quorumlock.NotAcquired, quorumlock.Unavailable, quorumlock.Lost):
                await asyncio.sleep(self.missed())
                continue
            await self.asection(name, held)
            if self.random.random() < 0.9:
                await held.release()
            del held

    async def asection(self, name, held):
        if not self.begins(name, held):
            return
        end = time.monotonic() + self.length()
        while time.monotonic() < end:
            if await held.wait_lost(min(0.01, max(0, end - time.monotonic()))):
                return self.told(held)
            self.look(held)
        self.ends(name, held)


def deadline(held):
    return int(held._state.deadline * 1e9)


def tell_usage(worker):
    while True:
        time.sleep(1)
        with open("/proc/self/statm") as file:
            resident = int(file.read().split()[1])
        worker.tell("uses", resident * 4, threading.active_count())


def main():
    _, _, seed, storage, agent = sys.argv
    workers = [Worker(task, int(seed), int(storage), agent) for task in range(TASKS)]
    for worker in workers[:-1]:
        threading.Thread(target=worker.run, daemon=True).start()
    threading.Thread(target=lambda: asyncio.run(workers[-1].arun()), daemon=True).start()
    threading.Thread(target=tell_usage, args=workers[:1], daemon=True).start()
    sys.stdin.read()
    # Exit at once: the agent releases the locks when the kernel closes the connections.
    os._exit(0)


main()
