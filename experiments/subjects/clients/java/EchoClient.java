import dyno.echo.v1.EchoGrpc;
import dyno.echo.v1.EchoRequest;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.netty.shaded.io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.handler.ssl.util.InsecureTrustManagerFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;

/** A client of the gRPC echo on grpc-java. README.md in the folder above has its options and figures. */
public final class EchoClient {
  private static final EchoRequest MESSAGE = EchoRequest.newBuilder().setText("0123456789abcdef").build();
  private static EchoGrpc.EchoBlockingStub echo;

  private EchoClient() {}

  public static void main(String[] args) throws Exception {
    Map<String, String> options = new HashMap<>(Map.of("--warm", "none", "--calls", "20000", "--flight", "16"));
    for (int i = 0; i + 1 < args.length; i += 2) {
      options.put(args[i], args[i + 1]);
    }
    int calls = Integer.parseInt(options.get("--calls"));
    int flight = Integer.parseInt(options.get("--flight"));
    String target = options.get("--target");

    long began = System.nanoTime();
    ManagedChannel channel =
        NettyChannelBuilder.forTarget(target)
            .sslContext(GrpcSslContexts.forClient().trustManager(InsecureTrustManagerFactory.INSTANCE).build())
            .build();
    echo = EchoGrpc.newBlockingStub(channel);
    if (options.get("--warm").equals("connect")) {
      for (ConnectivityState state = channel.getState(true); state != ConnectivityState.READY; state = channel.getState(true)) {
        CompletableFuture<Void> changed = new CompletableFuture<>();
        channel.notifyWhenStateChanged(state, () -> changed.complete(null));
        changed.get();
      }
    } else if (options.get("--warm").equals("calls")) {
      repeat(1, 1000);
    }
    if (!options.get("--warm").equals("none")) {
      began = System.nanoTime();
    }
    echo.echo(MESSAGE);
    long answered = System.nanoTime();
    echo.echo(MESSAGE);
    long second = System.nanoTime();
    long[] times = repeat(flight, calls / flight);
    double took = (System.nanoTime() - second) / 1e9;
    System.out.printf(
        "{\"first_seconds\":%s,\"second_seconds\":%s,\"p50_seconds\":%s,\"p99_seconds\":%s,\"calls_per_second\":%s,\"connections\":%d}%n",
        (answered - began) / 1e9, (second - answered) / 1e9, times[times.length / 2] / 1e9,
        times[times.length * 99 / 100] / 1e9, times.length / took, connections(target));
    channel.shutdownNow();
  }

  /** Makes calls in several threads, and returns their times in order. */
  private static long[] repeat(int threads, int each) throws InterruptedException {
    long[] times = new long[threads * each];
    Thread[] all =
        IntStream.range(0, threads)
            .mapToObj(
                i ->
                    new Thread(
                        () -> {
                          for (int n = i * each; n < (i + 1) * each; n++) {
                            long at = System.nanoTime();
                            echo.echo(MESSAGE);
                            times[n] = System.nanoTime() - at;
                          }
                        }))
            .toArray(Thread[]::new);
    for (Thread thread : all) {
      thread.start();
    }
    for (Thread thread : all) {
      thread.join();
    }
    Arrays.sort(times);
    return times;
  }

  /** Counts this machine's open connections to a target of its own, by the kernel's tables. */
  private static long connections(String target) throws Exception {
    String end = String.format(":%04X", Integer.parseInt(target.substring(target.lastIndexOf(':') + 1)));
    long n = 0;
    for (String table : new String[] {"/proc/net/tcp", "/proc/net/tcp6"}) {
      n += Files.readAllLines(Path.of(table)).stream().map(line -> line.trim().split("\\s+"))
          .filter(f -> f[2].endsWith(end) && f[3].equals("01")).count();
    }
    return n;
  }
}
