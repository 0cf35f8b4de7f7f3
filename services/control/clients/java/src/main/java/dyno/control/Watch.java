package dyno.control;

import dyno.control.v1.ControlOuterClass.*;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.lang.System.Logger.Level;
import java.util.*;
import java.util.concurrent.*;

/**
 * A series of snapshots. A program that takes them slowly misses intermediate states, and no change. It is for one
 * thread; close, applied and refused may be called from any.
 */
public final class Watch implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(Watch.class.getName());

    /** A resource that was before (null if it is new) and is after (null if it is removed). */
    public record Change(Resource before, Resource after) {}

    /**
     * The state of all watched resources, which the next call of next changes, with the changes since the snapshot before.
     * It is current if a server has said that it is complete, and is still heard. Otherwise it is what was known last.
     */
    public record Snapshot(Map<Ref, Resource> resources, List<Change> changes, boolean current, String server) {}

    private final Client client;
    private final Query.Builder query;
    private final Route route;
    private final CountDownLatch closed = new CountDownLatch(1);
    private final Map<Ref, Resource> changed = new LinkedHashMap<>(); // what was before
    private final Map<Ref, Ack> answers = new HashMap<>(); // the last one of each resource; this object guards it
    private final Map<Ref, Ack> unsent = new LinkedHashMap<>(); // those of them that are not sent yet
    private Map<Ref, Resource> resources = new HashMap<>();
    private Map<Ref, Resource> filling; // during a full snapshot; null otherwise
    private volatile Stream stream; // null between streams; this object guards it
    private String server = "";
    private boolean current;
    private long pause; // milliseconds before the next stream

    Watch(Client client, Query.Builder query) {
        this.client = client;
        this.query = query;
        route = new Route(client.servers);
    }

    /** Waits for the next snapshot, and returns null once the watch is closed. */
    public Snapshot next() throws InterruptedException {
        while (!closed.await(stream == null ? pause : 0, TimeUnit.MILLISECONDS)) {
            if (stream == null) {
                open();
            }
            try {
                while (!take(stream.read())) { }
                return snapshot();
            } catch (StatusRuntimeException e) {
                stream = null;
                filling = null;
                pause = route.failed(e);
                if (closed.getCount() == 0) {
                    return null;
                }
                LOG.log(Level.WARNING, "not watching at {0}, again after {1} ms: {2}", server, pause, e.getMessage());
            }
            if (current) {
                current = false;
                return snapshot();
            }
        }
        return null;
    }

    /** Says that the program runs a version. It returns at once. A newer answer replaces one that is not sent yet. */
    public void applied(Resource r) {
        answer(Ack.newBuilder().setRef(r.getRef()).setVersion(r.getVersion()).build());
    }

    /** Says that the program does not run a version, and why: it goes on with what it had. */
    public void refused(Resource r, String reason) {
        answer(Ack.newBuilder().setRef(r.getRef()).setVersion(r.getVersion()).setRefused(true).setReason(reason).build());
    }

    private synchronized void answer(Ack ack) {
        Ack old = answers.get(ack.getRef());
        // What is known bounds what waits. Without a name the program is in no rollout.
        if (!client.config.name.isEmpty() && resources.containsKey(ack.getRef()) && (old == null || old.getVersion() <= ack.getVersion())) {
            answers.put(ack.getRef(), ack);
            unsent.put(ack.getRef(), ack);
            send();
        }
    }

    private synchronized void send() {
        Stream s = stream;
        // A server that does not know a version yet would end the stream.
        while (s != null && current && closed.getCount() > 0 && s.requests.isReady() && !unsent.isEmpty()) {
            Ref next = unsent.keySet().iterator().next();
            s.requests.onNext(WatchRequest.newBuilder().setAck(unsent.remove(next)).build());
        }
    }

    private synchronized void open() {
        Client.Server s = route.server();
        server = s.address();
        stream = new Stream();
        s.streams().watch(stream);
        stream.requests.onNext(WatchRequest.newBuilder().setQuery(query).build());
        if (closed.getCount() == 0) {
            stream.requests.cancel("closed", null);
        }
    }

    /** One stream. The caller reads as fast as it likes: the server is asked for as many messages as there is room for. */
    private final class Stream implements ClientResponseObserver<WatchRequest, WatchResponse> {
        private static final int ROOM = 64;
        private final BlockingQueue<Object> queue = new ArrayBlockingQueue<>(ROOM + 1); // messages, and the end
        private ClientCallStreamObserver<WatchRequest> requests;

        @Override
        public void beforeStart(ClientCallStreamObserver<WatchRequest> r) {
            requests = r;
            r.disableAutoRequestWithInitial(ROOM);
            r.setOnReadyHandler(Watch.this::send);
        }

        @Override
        public void onNext(WatchResponse m) {
            queue.add(m);
        }

        @Override
        public void onError(Throwable t) {
            queue.add(Status.fromThrowable(t));
        }

        @Override
        public void onCompleted() {
            queue.add(Status.UNAVAILABLE.withDescription("the stream has ended"));
        }

        WatchResponse read() throws InterruptedException {
            Object next = queue.take();
            if (next instanceof Status end) {
                throw end.asRuntimeException();
            }
            requests.request(1);
            return (WatchResponse) next;
        }
    }

    /** Applies a message, and returns whether there is a state to show. */
    private synchronized boolean take(WatchResponse m) {
        route.good();
        Resource r = m.getResource();
        switch (m.getType()) {
            case TYPE_RESYNC -> {
                // What is known stays until the snapshot is complete. If the stream is cut before, it starts again.
                filling = new HashMap<>();
                query.clearToken();
                current = false;
            }
            case TYPE_PUT, TYPE_REMOVE -> {
                Map<Ref, Resource> into = filling == null ? resources : filling;
                if (filling == null) {
                    note(r.getRef(), resources.get(r.getRef()));
                }
                if (m.getType() == WatchResponse.Type.TYPE_PUT) {
                    into.put(r.getRef(), r);
                } else {
                    into.remove(r.getRef());
                }
                if (filling == null && !into.containsKey(r.getRef())) {
                    answers.remove(r.getRef());
                    unsent.remove(r.getRef());
                }
            }
            case TYPE_SYNCED -> {
                if (filling != null) {
                    replace();
                }
            }
            default -> { } // of a later server
        }
        if (filling != null) {
            return false;
        }
        if (!m.getToken().isEmpty()) {
            query.setToken(m.getToken());
        } else if (m.getType() != WatchResponse.Type.TYPE_SYNCED) {
            return false;
        }
        if (!current) { // this server may not know the answers yet
            current = true;
            answers.values().removeIf(a -> !resources.containsKey(a.getRef()) || resources.get(a.getRef()).getVersion() != a.getVersion());
            unsent.clear();
            unsent.putAll(answers);
            send();
        }
        return true;
    }

    private void note(Ref ref, Resource before) {
        if (!changed.containsKey(ref)) {
            changed.put(ref, before);
        }
    }

    private void replace() {
        Map<Ref, Resource> before = resources;
        resources = filling;
        filling = null;
        before.forEach((ref, r) -> {
            if (!Objects.equals(r, resources.get(ref))) {
                note(ref, r);
            }
        });
        resources.keySet().stream().filter(ref -> !before.containsKey(ref)).forEach(ref -> note(ref, null));
    }

    private Snapshot snapshot() {
        List<Change> changes = new ArrayList<>();
        changed.forEach((ref, before) -> changes.add(new Change(before, resources.get(ref))));
        changed.clear();
        return new Snapshot(Collections.unmodifiableMap(resources), changes, current, server);
    }

    /** Ends the watch: next returns null. */
    @Override
    public synchronized void close() {
        closed.countDown();
        Stream s = stream;
        if (s != null) {
            s.requests.cancel("closed", null);
        }
    }
}
