package dyno.control;

import dyno.control.v1.ControlOuterClass.*;
import java.util.HexFormat;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.CompletableFuture;

/**
 * Registers an instance of the service "example", reads the configuration "greeting", and prints changes of
 * configurations until its standard input ends. It refuses those that are no text:
 *
 * <pre>java -cp 'target/classes:target/lib/*' dyno.control.Example 127.0.0.1:7101,127.0.0.1:7111 1</pre>
 */
public final class Example {
    private Example() {}

    public static void main(String[] args) throws Exception {
        Client.Config config = new Client.Config();
        config.servers = List.of(args[0].split(","));
        config.name = "example-" + args[1];
        try (Client client = new Client(config)) {
            Instance instance = Instance.newBuilder().setAddress("127.0.0.1").setPort(8080).setTtlSeconds(6).build();
            Registration registration = client.register(instance, "example", args[1]);
            registration.ready();
            System.out.println("registered");
            Resource greeting = client.config("greeting");
            byte[] content = greeting.getConfig().getContent().toByteArray();
            System.out.println("read " + greeting.getVersion() + " " + HexFormat.of().formatHex(content));
            Watch watch = client.watch(List.of(Kind.KIND_CONFIG));
            CompletableFuture.runAsync(() -> {
                new Scanner(System.in).useDelimiter("\\z").hasNext(); // false at the end
                watch.close();
            });
            for (Watch.Snapshot s; (s = watch.next()) != null; ) {
                for (Watch.Change c : s.changes()) {
                    Resource r = c.after() == null ? c.before() : c.after();
                    System.out.println((c.after() == null ? "removed " : "put ") + r.getRef().getName() + " " + r.getVersion());
                    if (c.after() == null) {
                        continue;
                    }
                    if (r.getConfig().getContent().isValidUtf8()) {
                        watch.applied(r);
                    } else {
                        watch.refused(r, "no text");
                    }
                }
                System.out.println((s.current() ? "current " : "stale ") + s.server() + " " + s.resources().size());
            }
            registration.close();
        }
    }
}
