"""A client of dyno's control plane.

    client = Client(["10.0.0.1:7101", "10.0.0.2:7101"], name="shop-1")
    registration = client.register(Instance(address="10.0.0.9", port=80), "shop", "1")
    for snapshot in client.watch([KIND_CONFIG], ["limits"]):
        use(snapshot.resources)

Messages are those of control.proto. Every error is a grpc.RpcError.
"""

import logging
import random
import threading
import types
from typing import NamedTuple

import grpc

from .control_pb2 import *  # noqa: F403 - messages are part of the package
from . import control_pb2 as pb
from .control_pb2_grpc import ControlStub

REQUEST_TIMEOUT = 10.0  # seconds, of a call other than a watch
MIN_PAUSE, MAX_PAUSE = 0.1, 10.0  # seconds after a failure; the pause doubles with each one
BEATS_PER_LEASE = 3  # two may be lost
DEFAULT_LEASE = 30.0  # seconds

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
        """Close the connections. Close registrations and watches before."""
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

    It is for one thread; close may be called from any.
    """

    def __init__(self, client, query):
        self._client, self._query, self._resources, self._changed, self._current = client, query, {}, {}, False
        self._call, self._server, self._closed = None, "", threading.Event()
        self._snapshots = self._run()

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._snapshots)

    def close(self):
        """End the iteration."""
        self._closed.set()
        if call := self._call:
            call.cancel()

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
        requests = iter([pb.WatchRequest(query=self._query)])
        self._call = call = self._client.stubs[route.server].Watch(requests, metadata=self._client.metadata)
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
                    self._current = True
                    yield self._snapshot()
        finally:
            call.cancel()

    def _take(self, m, filling):
        key, into = _key(m.resource.ref), self._resources if filling is None else filling
        if filling is None:
            self._changed.setdefault(key, into.get(key))
        if m.type == pb.WatchResponse.TYPE_PUT:
            into[key] = m.resource
        else:
            into.pop(key, None)

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
        try:
            self._client.call("Remove", pb.RemoveRequest(ref=self._ref))
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.NOT_FOUND:
                raise

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
