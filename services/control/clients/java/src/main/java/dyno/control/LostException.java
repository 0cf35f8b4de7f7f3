package dyno.control;

/** Says that a session has ended, and its locks with it. */
public final class LostException extends RuntimeException {
    LostException(String message) {
        super(message);
    }
}
