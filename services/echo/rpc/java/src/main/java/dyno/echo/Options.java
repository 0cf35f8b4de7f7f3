package dyno.echo;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;

/**
 * What the command line says.
 *
 * @param listen the address to listen on; port 0 takes a free one
 * @param middleware how many layers there are around each call
 * @param maxMessage the longest message that is read, in encoded bytes
 * @param executor where calls are answered
 */
record Options(InetSocketAddress listen, int middleware, int maxMessage, Executor executor) {

  /** Where calls are answered. */
  enum Executor {
    /** The pool of threads that the library has by default. It grows with what is blocked. */
    POOL,
    /** The thread that has read the message. */
    DIRECT
  }

  static final String USAGE =
      """
      The gRPC echo, on grpc-java with Netty.

        --listen HOST:PORT      address to listen on; port 0 takes a free one (default 127.0.0.1:9000)
        --middleware N          layers around each call, each of which counts it (default 0)
        --max-message BYTES     longest payload of a message (default 4194304)
        --executor pool|direct  answer calls in the library's pool of threads, or in those of Netty (default pool)
        --help                  print this

      JAVA_OPTS holds options of the virtual machine, such as -XX:+UseParallelGC.""";

  /** What a message has around its payload: tags, lengths, and a short text. */
  private static final int FRAMING = 64;

  /** An option is wrong; the message says which, and why. */
  static final class WrongOptionException extends Exception {
    private static final long serialVersionUID = 1L;

    WrongOptionException(String message) {
      super(message);
    }
  }

  /** Returns what the arguments say; null if they ask for help. */
  static Options parse(String[] args) throws WrongOptionException {
    InetSocketAddress listen = address("127.0.0.1:9000");
    int middleware = 0;
    int payload = 4 << 20;
    Executor executor = Executor.POOL;
    for (int i = 0; i < args.length; i++) {
      String name = args[i];
      String value = null;
      int equals = name.indexOf('=');
      if (equals >= 0) {
        value = name.substring(equals + 1);
        name = name.substring(0, equals);
      }
      switch (name) {
        case "--help", "-h" -> {
          return null;
        }
        case "--listen", "--middleware", "--max-message", "--executor" -> {
          if (value == null) {
            if (++i == args.length) {
              throw new WrongOptionException(name + ": needs a value");
            }
            value = args[i];
          }
        }
        default -> throw new WrongOptionException(name + ": no such option");
      }
      switch (name) {
        case "--listen" -> listen = address(value);
        case "--middleware" -> middleware = number(name, value, 0, 1000);
        case "--max-message" -> payload = number(name, value, 0, 1 << 30);
        default -> executor = executor(value);
      }
    }
    return new Options(listen, middleware, payload + FRAMING, executor);
  }

  private static int number(String name, String value, int low, int high)
      throws WrongOptionException {
    try {
      int number = Integer.parseInt(value);
      if (number >= low && number <= high) {
        return number;
      }
    } catch (NumberFormatException e) {
      // What is wrong is said below.
    }
    throw new WrongOptionException(
        "%s: \"%s\": must be a whole number from %d to %d".formatted(name, value, low, high));
  }

  private static Executor executor(String value) throws WrongOptionException {
    return switch (value) {
      case "pool" -> Executor.POOL;
      case "direct" -> Executor.DIRECT;
      default ->
          throw new WrongOptionException(
              "--executor: \"%s\": must be pool or direct".formatted(value));
    };
  }

  private static InetSocketAddress address(String value) throws WrongOptionException {
    int colon = value.lastIndexOf(':');
    if (colon <= 0) {
      throw new WrongOptionException("--listen: \"%s\": must be HOST:PORT".formatted(value));
    }
    int port = number("--listen", value.substring(colon + 1), 0, 65535);
    try {
      return new InetSocketAddress(InetAddress.getByName(value.substring(0, colon)), port);
    } catch (UnknownHostException e) {
      throw new WrongOptionException(
          "--listen: \"%s\": there is no such host".formatted(value));
    }
  }
}
