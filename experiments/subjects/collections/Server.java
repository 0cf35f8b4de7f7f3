import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

/**
 * A server to measure the collectors of a JVM: java Server PORT LIVE-MiB GARBAGE-KiB KEPT-KiB.
 *
 * It keeps a live heap in pieces of 1 KiB. Each request makes garbage, and replaces pieces of the live heap. So
 * objects survive young collections, and old ones die, as in a server with a cache.
 */
public final class Server {
    private static final int PIECE = 1024;

    public static void main(String[] args) throws Exception {
        var live = new byte[Integer.parseInt(args[1]) * 1024][];
        for (int i = 0; i < live.length; i++) {
            live[i] = new byte[PIECE];
        }
        int garbage = Integer.parseInt(args[2]);
        int kept = Integer.parseInt(args[3]);
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])), 1024);
        server.setExecutor(Executors.newFixedThreadPool(32));
        server.createContext("/", exchange -> {
            var random = ThreadLocalRandom.current();
            int sum = 0;
            for (int i = 0; i < garbage; i++) {
                var piece = new byte[PIECE];
                piece[i % PIECE] = 1;
                sum += piece[random.nextInt(PIECE)]; // a compiler must not leave the piece out
                if (i < kept) {
                    live[random.nextInt(live.length)] = piece;
                }
            }
            var answer = ("sum " + sum + "\n").getBytes();
            exchange.sendResponseHeaders(200, answer.length);
            try (var body = exchange.getResponseBody()) {
                body.write(answer);
            }
        });
        server.start();
    }
}
