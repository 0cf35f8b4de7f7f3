package dyno.control;

import dyno.control.v1.ControlGrpc.ControlBlockingStub;
import dyno.control.v1.ControlOuterClass.*;
import io.grpc.StatusRuntimeException;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Keeps an instance registered until it is closed. Its methods may be called from any thread. */
public final class Registration {
    private static final System.Logger LOG = System.getLogger(Registration.class.getName());
    static final int BEATS_PER_LEASE = 3; // two may be lost
    private static final double DEFAULT_LEASE = 30; // seconds

    private final Client client;
    private final Ref ref;
    private final Instance instance;
    private final long part; // of the lease, in milliseconds
    private final Thread thread = new Thread(this::keep, "dyno registration");
    private final CountDownLatch closed = new CountDownLatch(1);
    private final CountDownLatch settled = new CountDownLatch(1);
    private volatile StatusRuntimeException error; // the instance is refused for good
    private boolean known; // of the thread

    Registration(Client client, Ref ref, Instance instance) {
        this.client = client;
        this.ref = ref;
        this.instance = instance;
        part = (long) (1000 * (instance.getTtlSeconds() > 0 ? instance.getTtlSeconds() : DEFAULT_LEASE) / BEATS_PER_LEASE);
        thread.setDaemon(true);
        thread.start();
    }

    /** Waits until the control plane knows the instance. It throws the error if the instance is refused for good. */
    public void ready() throws InterruptedException {
        settled.await();
        StatusRuntimeException e = error;
        if (e != null) {
            throw e;
        }
    }

    /** Removes the instance. After an error it expires with its lease. */
    public void close() throws InterruptedException {
        closed.countDown();
        thread.join();
        client.remove(RemoveRequest.newBuilder().setRef(ref).build());
    }

    private void keep() {
        Route route = new Route(client.servers);
        try {
            for (long pause = 0; !closed.await(pause, TimeUnit.MILLISECONDS); ) {
                pause = signal(route);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // nobody has this thread to do so
        }
    }

    /** Gives one sign of life, and returns the milliseconds until the next one is due. */
    private long signal(Route route) {
        ControlBlockingStub stub = route.server().stub();
        try {
            if (known) {
                // A part of the lease bounds a heartbeat, so that another server can still be asked in time.
                HeartbeatRequest beat = HeartbeatRequest.newBuilder().addInstances(ref).build();
                known = stub.withDeadlineAfter(Duration.ofMillis(part)).heartbeat(beat).getUnknownCount() == 0;
            }
            if (!known) {
                RegisterRequest request = RegisterRequest.newBuilder().setRef(ref).setInstance(instance).build();
                stub.withDeadlineAfter(Client.REQUEST_TIMEOUT).register(request);
                known = true;
                error = null;
                settled.countDown();
            }
            route.good();
            return Route.spread(part);
        } catch (StatusRuntimeException e) {
            long pause = route.failed(e);
            if (!Route.lasting(e)) {
                pause = Math.min(pause, Route.spread(part));
            } else if (!known) {
                error = e;
                settled.countDown();
            }
            LOG.log(Level.WARNING, "no sign of life of {0}/{1}, again after {2} ms: {3}", ref.getName(), ref.getId(), pause, e.getMessage());
            return pause;
        }
    }
}
