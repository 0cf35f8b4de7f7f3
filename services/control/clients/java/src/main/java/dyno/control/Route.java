package dyno.control;

import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;

/** Chooses the next server, and the pause after a failure. It is for one thread. */
final class Route {
    /** Milliseconds. The pause doubles with each failure. */
    private static final long MIN_PAUSE = 100;

    private static final long MAX_PAUSE = 10_000;

    /** The same request would be refused again, until an operator changes something. */
    private static final Set<Status.Code> LASTING = Set.of(Status.Code.INVALID_ARGUMENT, Status.Code.UNAUTHENTICATED,
            Status.Code.PERMISSION_DENIED, Status.Code.NOT_FOUND, Status.Code.FAILED_PRECONDITION, Status.Code.OUT_OF_RANGE,
            Status.Code.UNIMPLEMENTED);

    private final List<Client.Server> servers;
    private int at;
    private long pause = MIN_PAUSE;

    Route(List<Client.Server> servers) {
        this.servers = servers;
        at = ThreadLocalRandom.current().nextInt(servers.size());
    }

    Client.Server server() {
        servers.get(at).channel().resetConnectBackoff(); // the pauses are those of this class
        return servers.get(at);
    }

    void good() {
        pause = MIN_PAUSE;
    }

    /** Returns the pause in milliseconds. */
    long failed(StatusRuntimeException error) {
        at = (at + 1) % servers.size();
        long now = lasting(error) ? MAX_PAUSE : pause;
        pause = Math.min(2 * pause, MAX_PAUSE);
        return spread(now);
    }

    static boolean lasting(StatusRuntimeException error) {
        return LASTING.contains(error.getStatus().getCode());
    }

    /** Returns a random time from half of it to all, so that programs do not come back at once. */
    static long spread(long milliseconds) {
        return milliseconds / 2 + ThreadLocalRandom.current().nextLong(milliseconds / 2 + 1);
    }
}
