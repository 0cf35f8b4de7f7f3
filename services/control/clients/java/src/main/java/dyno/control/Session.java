package dyno.control;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import dyno.control.v1.ControlGrpc.ControlBlockingStub;
import dyno.control.v1.ControlOuterClass.*;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Has locks. It is renewed until it is closed or lost. Its methods may be called from any thread. */
public final class Session implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(Session.class.getName());

    /** Of a request for a lock, so that the server answers before the request's time is over. */
    private static final Duration WAIT = Client.REQUEST_TIMEOUT.dividedBy(2);

    private static final Duration FOREVER = Duration.ofNanos(Long.MAX_VALUE / 4);

    private final Client client;
    private final Duration ttl;
    private final Ref ref;
    private final Thread thread;
    private final CountDownLatch closed = new CountDownLatch(1);
    private final CompletableFuture<Void> lost = new CompletableFuture<>();

    Session(Client client, String name, Duration ttl) {
        this.client = client;
        this.ttl = ttl;
        long asked = System.nanoTime();
        BeginSessionRequest request = BeginSessionRequest.newBuilder().setNamespace(client.config.namespace)
                .setSession(dyno.control.v1.ControlOuterClass.Session.newBuilder().setName(name).setTtlSeconds((int) ttl.toSeconds())).build();
        ref = client.call(stub -> stub.beginSession(request)).getResource().getRef();
        if (System.nanoTime() - asked > ttl.toNanos() / Registration.BEATS_PER_LEASE) { // its time may be over before its first renewal
            asked = System.nanoTime();
            client.call(stub -> stub.renewSession(RenewSessionRequest.newBuilder().setRef(ref).build()));
        }
        long until = asked + ttl.toNanos();
        thread = new Thread(() -> keep(until), "dyno session");
        thread.setDaemon(true);
        thread.start();
    }

    /** Completes when the session has ended without close, and its locks with it. */
    public CompletableFuture<Void> lost() {
        return lost.copy();
    }

    /** Throws a LostException if the session is lost or closed. */
    public void check() {
        if (lost.isDone() || closed.getCount() == 0) {
            throw new LostException("the session is " + (lost.isDone() ? "lost" : "closed"));
        }
    }

    /** Ends the session, and releases its locks. After an error they are released after the session's time. */
    @Override
    public void close() throws InterruptedException {
        closed.countDown();
        if (Thread.currentThread() != thread) { // which runs what waits for lost
            thread.join();
        }
        if (!lost.isDone()) {
            client.remove(RemoveRequest.newBuilder().setRef(ref).build());
        }
    }

    /** Waits until the session has a lock, as long as it takes. See the other method of this name. */
    public Lock lock(String name, String value) throws InterruptedException {
        try {
            return lock(name, value, FOREVER);
        } catch (TimeoutException e) {
            throw new AssertionError(e); // after 73 years
        }
    }

    /**
     * Waits until the session has a lock. The value is for who watches the lock: that of an elected leader is its address.
     * After an error, the session may have the lock or get it: call it again, or close the session.
     */
    public Lock lock(String name, String value, Duration timeout) throws InterruptedException, TimeoutException {
        long end = System.nanoTime() + timeout.toNanos();
        Route route = new Route(client.servers);
        AcquireRequest.Builder ask = AcquireRequest.newBuilder().setRef(client.ref(Kind.KIND_LOCK, name, "")).setSession(ref.getName()).setValue(value);
        while (true) {
            check();
            long pause = 0;
            try {
                long wait = Math.min(WAIT.toNanos(), left(end));
                ControlBlockingStub stub = route.server().stub().withDeadlineAfter(WAIT.plusNanos(wait));
                Resource resource = stub.acquire(ask.setWaitSeconds(wait / 1e9).build()).getResource();
                check();
                return new Lock(this, resource);
            } catch (StatusRuntimeException e) {
                if (e.getStatus().getCode() == Status.Code.NOT_FOUND) {
                    lose("it has ended");
                } else if (held(e)) {
                    route.good();
                } else if (Route.lasting(e)) {
                    throw e;
                } else {
                    pause = route.failed(e);
                }
            }
            if (left(end) == 0) {
                throw new TimeoutException(name + ": the lock is not free after " + timeout);
            }
            closed.await(Math.min(TimeUnit.MILLISECONDS.toNanos(pause), left(end)), TimeUnit.NANOSECONDS);
        }
    }

    private static long left(long end) {
        return Math.max(0, end - System.nanoTime());
    }

    /** Reports whether another session has a lock. */
    private static boolean held(StatusRuntimeException e) {
        try {
            for (Any detail : StatusProto.fromThrowable(e).getDetailsList()) {
                if (detail.is(ErrorInfo.class) && detail.unpack(ErrorInfo.class).getReason().equals("held")) {
                    return true;
                }
            }
        } catch (InvalidProtocolBufferException unreadable) {
            return false;
        }
        return false;
    }

    void release(Ref lock) {
        if (!lost.isDone()) {
            client.remove(RemoveRequest.newBuilder().setRef(lock).setSession(ref.getName()).build());
        }
    }

    private void lose(String why) {
        if (closed.getCount() > 0 && !lost.isDone()) {
            LOG.log(Level.WARNING, "the session {0} is lost: {1}", ref.getName(), why);
            lost.complete(null);
        }
    }

    /** Renews the session. Its end is counted from before the request whose answer renewed it, so this side ends first. */
    private void keep(long until) {
        Route route = new Route(client.servers);
        long part = ttl.toMillis() / Registration.BEATS_PER_LEASE;
        long pause = Route.spread(part);
        try {
            while (!closed.await(Math.min(TimeUnit.MILLISECONDS.toNanos(pause), left(until)), TimeUnit.NANOSECONDS) && !lost.isDone()) {
                long asked = System.nanoTime();
                if (asked - until >= 0) {
                    lose("no answer for " + ttl);
                    return;
                }
                ControlBlockingStub stub = route.server().stub().withDeadlineAfter(Math.min(TimeUnit.MILLISECONDS.toNanos(part), left(until)), TimeUnit.NANOSECONDS);
                try {
                    stub.renewSession(RenewSessionRequest.newBuilder().setRef(ref).build());
                    until = asked + ttl.toNanos();
                    route.good();
                    pause = Route.spread(part);
                } catch (StatusRuntimeException e) {
                    if (e.getStatus().getCode() == Status.Code.NOT_FOUND) {
                        lose("it has ended");
                        return;
                    }
                    pause = Math.min(route.failed(e), part / client.servers.size()); // each is asked in time
                    LOG.log(Level.WARNING, "the session {0} is not renewed, again after {1} ms: {2}", ref.getName(), pause, e.getMessage());
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // nobody has this thread to do so
        }
    }
}
