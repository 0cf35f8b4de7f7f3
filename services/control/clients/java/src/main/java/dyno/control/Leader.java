package dyno.control;

import java.time.Duration;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;

/**
 * Waits to be elected leader, counts elections, and leads until its standard input ends or it is not the leader any more:
 *
 * <pre>java -cp 'target/classes:target/lib/*' dyno.control.Leader 127.0.0.1:7101,127.0.0.1:7111 10.0.0.9:80</pre>
 */
public final class Leader {
    private Leader() {}

    public static void main(String[] args) throws Exception {
        Client.Config config = new Client.Config();
        config.servers = List.of(args[0].split(","));
        try (Client client = new Client(config);
                Session session = client.begin(args[1], Duration.ofSeconds(8));
                Lock lock = elect(session, args[1])) {
            System.out.println("leads " + lock.token() + " " + client.add("elections", 1));
            CompletableFuture<Void> ended = CompletableFuture.runAsync(() -> {
                new Scanner(System.in).useDelimiter("\\z").hasNext(); // false at the end
            });
            CompletableFuture.anyOf(session.lost(), ended).join();
            lock.check();
        } catch (LostException e) {
            System.out.println(e.getMessage());
        }
    }

    private static Lock elect(Session session, String address) throws InterruptedException {
        try {
            return session.lock("leader", address, Duration.ofMillis(100));
        } catch (TimeoutException e) {
            System.out.println("waits");
            return session.lock("leader", address);
        }
    }
}
