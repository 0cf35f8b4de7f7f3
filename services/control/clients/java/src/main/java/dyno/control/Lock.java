package dyno.control;

import dyno.control.v1.ControlOuterClass.*;

/** A lock that a session has. */
public final class Lock implements AutoCloseable {
    private final Session session;
    private final Resource resource;

    Lock(Session session, Resource resource) {
        this.session = session;
        this.resource = resource;
    }

    /** Is larger than those of all who had the lock before: resources can refuse smaller ones. */
    public long token() {
        return resource.getLock().getToken();
    }

    /** Throws a LostException if the lock is lost with its session. */
    public void check() {
        session.check();
    }

    /** Releases the lock. One that is lost needs no release. */
    public void unlock() {
        session.release(resource.getRef());
    }

    @Override
    public void close() {
        unlock();
    }
}
