"""A client of dyno's control plane.

    client = Client(["10.0.0.1:7101", "10.0.0.2:7101"], name="shop-1")
    registration = client.register(Instance(address="10.0.0.9", port=80), "shop", "1")
    for snapshot in client.watch([KIND_CONFIG], ["limits"]):
        use(snapshot.resources)

Messages are those of control.proto. Every error of a server is a grpc.RpcError.
"""

import logging
import random
import threading
import time
import types
import uuid
from typing import NamedTuple

import grpc

from .control_pb2 import *  # noqa: F403 - messages are part of the package
from . import control_pb2 as pb
from .control_pb2_grpc import ControlStub

REQUEST_TIMEOUT = 10.0  # seconds, of a call other than a watch
MIN_PAUSE, MAX_PAUSE = 0.1, 10.0  # seconds after a failure; the pause doubles with each one
BEATS_PER_LEASE = 3  # two may be lost
DEFAULT_LEASE = 30.0  # seconds
LOCK_WAIT = REQUEST_TIMEOUT / 2  # so that the server answers before the request's time is over

# An ErrorInfo as it is encoded: another session has the lock.
HELD = b"\n\x04held\x12\x0cdyno.control"

# A dead server is noticed by pings, and an answer may have a document of the largest size.
OPTIONS = [
    ("grpc.keepalive_time_ms", 20_000), ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.min_reconnect_backoff_ms", 5_000), ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", 16 << 20),
]

# The same request would be refused again, until an operator changes something.
LASTING = {
    grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.UNIMPLEMENTED,
}
# Another server may answer.
ELSEWHERE = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}

log = logging.getLogger(__name__)


def spread(seconds):
    """Return a random time from half of it to all, so that programs do not come back at once."""
    return seconds * random.uniform(0.5, 1)


class LostError(Exception):
    """The session has ended, and its locks with it."""


class _Route:
    """Chooses the next server, and the pause after a failure. It is for one thread."""

    def __init__(self, servers):
        self.servers, self.at, self.pause = servers, random.randrange(len(servers)), MIN_PAUSE

    @property
    def server(self):
        return self.servers[self.at]

    def good(self):
        self.pause = MIN_PAUSE

    def failed(self, error):
        self.at = (self.at + 1) % len(self.servers)
        pause, self.pause = self.pause, min(2 * self.pause, MAX_PAUSE)
        return spread(MAX_PAUSE if error and error.code() in LASTING else pause)


class Client:
    """Has a connection to each replica. Its methods may be called from any thread.

    name and labels choose the program for gray releases.
    credentials are grpc.ssl_channel_credentials(...); None connects without TLS.
    """

    def __init__(self, servers, *, namespace="default", name="", labels=None, token="", credentials=None):
        if not servers:
            raise ValueError("servers: one must be given, such as 127.0.0.1:7101")
        self.namespace, self.name, self.labels = namespace, name, dict(labels or {})
        self.metadata = (("authorization", "Bearer " + token),) if token else ()
        self.servers = list(servers)
        self._channels = {
            s: grpc.secure_channel(s, credentials, OPTIONS) if credentials else grpc.insecure_channel(s, OPTIONS) for s in self.servers
        }
        self.stubs = {s: ControlStub(c) for s, c in self._channels.items()}

    def close(self):
        """Close the connections. Close registrations, watches and sessions before."""
        for channel in self._channels.values():
            channel.close()

    def call(self, operation, request, timeout=REQUEST_TIMEOUT):
        """Call an operation of control.proto, such as "Put". If a server cannot be reached, the next one is asked."""
        route = _Route(self.servers)
        for left in reversed(range(len(self.servers))):
            try:
                return self.call_once(route.server, operation, request, timeout)
            except grpc.RpcError as error:
                if error.code() not in ELSEWHERE or not left:
                    raise
                route.failed(error)

    def call_once(self, server, operation, request, timeout=REQUEST_TIMEOUT):
        return getattr(self.stubs[server], operation)(request, timeout=timeout, metadata=self.metadata)

    def ref(self, kind, name, id=""):
        return pb.Ref(kind=kind, namespace=self.namespace, name=name, id=id)

    def config(self, name):
        """Read a configuration as it is now: a Resource. Unlike a watch it has secrets, and no gray release."""
        return self.call("Get", pb.GetRequest(ref=self.ref(pb.KIND_CONFIG, name))).resource

    def watch(self, kinds, names=()):
        """Watch the resources of some kinds: all of the namespace, or by name. That of an instance is its service's."""
        return Watch(self, pb.Query(namespace=self.namespace, kinds=kinds, names=names, client=self.name, labels=self.labels))

    def register(self, instance, service, id):
        """Register an instance, and keep it registered until the Registration is closed. It returns at once."""
        return Registration(self, self.ref(pb.KIND_INSTANCE, service, id), instance)

    def begin(self, name, ttl_seconds=15, on_lost=None):
        """Begin a session, which is renewed until it is closed or lost. Its name is for people.

        It is lost after ttl_seconds (from 2 to 3600) without an answer to a renewal, or if the control plane has ended
        it. Then on_lost is called, by another thread.
        """
        return Session(self, name, ttl_seconds, on_lost)

    def add(self, counter, number):
        """Add to a counter, which begins with 0, and return its value. It counts once, even if a server is asked again."""
        ref, once = self.ref(pb.KIND_COUNTER, counter), pb.Conditions(idempotency_key=str(uuid.uuid4()))
        return self.call("Add", pb.AddRequest(ref=ref, add=number, conditions=once)).resource.counter.value

    def remove(self, ref, session=""):
        """Remove a resource, which may have been removed already."""
        try:
            self.call("Remove", pb.RemoveRequest(ref=ref, session=session))
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.NOT_FOUND:
                raise


class Change(NamedTuple):
    before: pb.Resource  # None if it is new
    after: pb.Resource  # None if it is removed


class Snapshot(NamedTuple):
    """The state of all watched resources. The next step of the watch changes it."""

    resources: types.MappingProxyType  # by (kind, namespace, name, id)
    changes: list  # since the snapshot before: a Change for each resource
    current: bool  # a server has said that this is complete, and is still heard; otherwise it is what was known last
    server: str  # which is watched


def _key(ref):
    return ref.kind, ref.namespace, ref.name, ref.id


class Watch:
    """An iterator of snapshots. A program that takes them slowly misses intermediate states, and no change.

    It is for one thread; close, applied and refused may be called from any.
    """

    def __init__(self, client, query):
        self._client, self._query, self._resources, self._changed, self._current = client, query, {}, {}, False
        self._call, self._server, self._closed = None, "", threading.Event()
        self._snapshots = self._run()
        self._news = threading.Condition()  # guards what follows
        self._answers = {}  # the last Ack of each resource, by key
        self._unsent = {}  # those of them that are not sent yet

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._snapshots)

    def close(self):
        """End the iteration."""
        self._closed.set()
        if call := self._call:
            call.cancel()

    def applied(self, resource):
        """Say that the program runs a version. It returns at once. A newer answer replaces one that is not sent yet."""
        self._answer(pb.Ack(ref=resource.ref, version=resource.version))

    def refused(self, resource, reason):
        """Say that the program does not run a version, and why: it goes on with what it had."""
        self._answer(pb.Ack(ref=resource.ref, version=resource.version, refused=True, reason=reason))

    def _answer(self, ack):
        key = _key(ack.ref)
        with self._news:
            old = self._answers.get(key)
            # What is known bounds what waits. Without a name the program is in no rollout.
            if self._client.name and key in self._resources and not (old and old.version > ack.version):
                self._answers[key] = self._unsent[key] = ack
                self._news.notify()

    def _requests(self, ended):
        """Yield the requests of a stream until it has ended."""
        yield pb.WatchRequest(query=self._query)
        while True:
            with self._news:
                # A server that does not know a version yet would end the stream.
                self._news.wait_for(lambda: self._current and self._unsent or ended.is_set())
                if ended.is_set():
                    return
                ack = self._unsent.pop(next(iter(self._unsent)))
            yield pb.WatchRequest(ack=ack)

    def _show(self):
        """Return a snapshot that is current. At the beginning of a stream, its server may not know the answers yet."""
        if not self._current:
            with self._news:
                self._current = True
                versions = {key: r.version for key, r in self._resources.items()}
                self._answers = {key: a for key, a in self._answers.items() if versions.get(key) == a.version}
                self._unsent = dict(self._answers)
                self._news.notify()
        return self._snapshot()

    def _run(self):
        route = _Route(self._client.servers)
        while not self._closed.is_set():
            error = None
            try:
                yield from self._follow(route)
            except grpc.RpcError as e:
                error = e
            if self._closed.is_set():
                return
            if self._current:
                self._current = False
                yield self._snapshot()
            pause = route.failed(error)
            log.warning("not watching at %s, again after %.1f s: %s", self._server, pause, error and error.details())
            self._closed.wait(pause)

    def _follow(self, route):
        """Read one stream until it ends."""
        self._server = route.server
        ended = threading.Event()
        self._call = call = self._client.stubs[route.server].Watch(self._requests(ended), metadata=self._client.metadata)
        if self._closed.is_set():
            call.cancel()
        filling = None  # during a full snapshot
        try:
            for m in call:
                route.good()
                if m.type == pb.WatchResponse.TYPE_RESYNC:
                    # What is known stays until the snapshot is complete. If the stream is cut before, it starts again.
                    filling, self._query.token, self._current = {}, "", False
                elif m.type in (pb.WatchResponse.TYPE_PUT, pb.WatchResponse.TYPE_REMOVE):
                    self._take(m, filling)
                elif m.type == pb.WatchResponse.TYPE_SYNCED and filling is not None:
                    self._replace(filling)
                    filling = None
                if filling is not None:
                    continue
                if m.token:
                    self._query.token = m.token
                if m.token or m.type == pb.WatchResponse.TYPE_SYNCED:
                    yield self._show()
        finally:
            call.cancel()
            with self._news:
                ended.set()
                self._news.notify()

    def _take(self, m, filling):
        key, into = _key(m.resource.ref), self._resources if filling is None else filling
        if filling is None:
            self._changed.setdefault(key, into.get(key))
        if m.type == pb.WatchResponse.TYPE_PUT:
            into[key] = m.resource
        else:
            into.pop(key, None)
        if filling is None and key not in into:
            with self._news:
                self._answers.pop(key, None)
                self._unsent.pop(key, None)

    def _replace(self, filling):
        before, self._resources = self._resources, filling
        for key in before.keys() | filling.keys():
            if before.get(key) != filling.get(key):
                self._changed.setdefault(key, before.get(key))

    def _snapshot(self):
        changes = [Change(before, self._resources.get(key)) for key, before in self._changed.items()]
        self._changed = {}
        return Snapshot(types.MappingProxyType(self._resources), changes, self._current, self._server)


class Registration:
    """Keeps an instance registered until it is closed. Its methods may be called from any thread."""

    def __init__(self, client, ref, instance):
        self._client, self._ref, self._instance = client, ref, instance
        self._closed, self._settled, self._error = threading.Event(), threading.Event(), None
        self._thread = threading.Thread(target=self._keep, name="dyno registration", daemon=True)
        self._thread.start()

    def ready(self, timeout=None):
        """Wait until the control plane knows the instance. It raises the error if the instance is refused for good."""
        if not self._settled.wait(timeout):
            raise TimeoutError(f"not registered within {timeout} s")
        if self._error:
            raise self._error

    def close(self):
        """Remove the instance. After an error it expires with its lease."""
        self._closed.set()
        self._thread.join()
        self._client.remove(self._ref)

    def _keep(self):
        route, known, pause = _Route(self._client.servers), False, 0
        # A part of the lease bounds a heartbeat, so that another server can still be asked in time.
        part = (self._instance.ttl_seconds or DEFAULT_LEASE) / BEATS_PER_LEASE
        while not self._closed.wait(pause):
            try:
                if known:
                    beat = pb.HeartbeatRequest(instances=[self._ref])
                    known = not self._client.call_once(route.server, "Heartbeat", beat, part).unknown
                if not known:
                    self._client.call_once(route.server, "Register", pb.RegisterRequest(ref=self._ref, instance=self._instance))
                    known, self._error = True, None
                    self._settled.set()
                route.good()
                pause = spread(part)
            except grpc.RpcError as error:
                pause = route.failed(error)
                if error.code() not in LASTING:
                    pause = min(pause, spread(part))
                elif not known:
                    self._error = error
                    self._settled.set()
                log.warning("no sign of life of %s/%s, again after %.1f s: %s", self._ref.name, self._ref.id, pause, error.details())


class Session:
    """Has locks. It is renewed until it is closed or lost. Its methods may be called from any thread.

    lost is a threading.Event: the session has ended without close, and its locks with it.
    """

    def __init__(self, client, name, ttl_seconds, on_lost):
        self._client, self._ttl, self._on_lost, self._closed, self.lost = client, ttl_seconds, on_lost, threading.Event(), threading.Event()
        asked = time.monotonic()
        session = pb.Session(name=name, ttl_seconds=ttl_seconds)
        self._ref = client.call("BeginSession", pb.BeginSessionRequest(namespace=client.namespace, session=session)).resource.ref
        if time.monotonic() - asked > ttl_seconds / BEATS_PER_LEASE:  # its time may be over before its first renewal
            asked = time.monotonic()
            client.call("RenewSession", pb.RenewSessionRequest(ref=self._ref))
        self._thread = threading.Thread(target=self._keep, args=(asked + ttl_seconds,), name="dyno session", daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def check(self):
        """Raise LostError if the session is lost or closed."""
        if self.lost.is_set() or self._closed.is_set():
            raise LostError("the session is " + ("lost" if self.lost.is_set() else "closed"))

    def close(self):
        """End the session, and release its locks. After an error they are released after the session's time."""
        self._closed.set()
        if threading.current_thread() is not self._thread:  # on_lost may close it
            self._thread.join()
        if not self.lost.is_set():
            self._client.remove(self._ref)

    def lock(self, name, value="", timeout=None):
        """Wait until the session has a lock, and return it. It raises TimeoutError after a number of seconds.

        The value is for who watches the lock: that of an elected leader is its address. After an error, the session may
        have the lock or get it: call it again, or close the session.
        """
        end = None if timeout is None else time.monotonic() + timeout
        route, ref = _Route(self._client.servers), self._client.ref(pb.KIND_LOCK, name)
        while True:
            self.check()
            wait = LOCK_WAIT if end is None else max(0, min(LOCK_WAIT, end - time.monotonic()))
            ask = pb.AcquireRequest(ref=ref, session=self._ref.name, value=value, wait_seconds=wait)
            pause = 0
            try:
                lock = Lock(self, self._client.call_once(route.server, "Acquire", ask, wait + LOCK_WAIT).resource)
                self.check()
                return lock
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.NOT_FOUND:
                    self._lose("it has ended")
                elif any(HELD in text for key, text in error.trailing_metadata() or () if key == "grpc-status-details-bin"):
                    route.good()
                elif error.code() in LASTING:
                    raise
                else:
                    pause = route.failed(error)
            if end is not None:
                if time.monotonic() >= end:
                    raise TimeoutError(f"{name}: the lock is not free after {timeout} s")
                pause = min(pause, end - time.monotonic())
            self._closed.wait(max(0, pause))

    def _lose(self, why):
        if not self._closed.is_set() and not self.lost.is_set():
            log.warning("the session %s is lost: %s", self._ref.name, why)
            self.lost.set()

    def _keep(self, until):
        """Renew the session. Its end is counted from before the request whose answer renewed it, so this side ends first."""
        route, part = _Route(self._client.servers), self._ttl / BEATS_PER_LEASE
        pause = spread(part)
        while not self._closed.wait(max(0, min(pause, until - time.monotonic()))) and not self.lost.is_set():
            asked = time.monotonic()
            if asked >= until:
                self._lose(f"no answer for {self._ttl} s")
                break
            try:
                self._client.call_once(route.server, "RenewSession", pb.RenewSessionRequest(ref=self._ref), min(part, until - asked))
                until = asked + self._ttl
                route.good()
                pause = spread(part)
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.NOT_FOUND:
                    self._lose("it has ended")
                    break
                pause = min(route.failed(error), part / len(self._client.servers))  # each is asked in time
                log.warning("the session %s is not renewed, again after %.1f s: %s", self._ref.name, pause, error.details())
        if self.lost.is_set() and self._on_lost:
            self._on_lost()


class Lock:
    """One that a session has. token is larger than those of all who had the lock before: resources can refuse smaller ones."""

    def __init__(self, session, resource):
        self._session, self._ref, self.token = session, resource.ref, resource.lock.token

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.unlock()

    def check(self):
        """Raise LostError if the lock is lost with its session."""
        self._session.check()

    def unlock(self):
        """Release the lock. One that is lost needs no release."""
        if not self._session.lost.is_set():
            self._session._client.remove(self._ref, self._session._ref.name)
