package dyno.echo;

import dyno.echo.v1.EchoGrpc;
import io.grpc.Server;
import io.grpc.ServerInterceptors;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.services.HealthStatusManager;
import io.grpc.protobuf.services.ProtoReflectionService;
import io.grpc.protobuf.services.ProtoReflectionServiceV1;
import java.io.IOException;
import java.net.Inet4Address;
import java.net.InetSocketAddress;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;

/** Offers the echo until it is asked to end. */
public final class EchoServer {

  /** How long calls may go on after SIGTERM, before they are cut. */
  private static final long DRAIN_SECONDS = 3;

  /** The library logs what clients do wrong. It is kept, or its level would be lost. */
  private static final Logger LIBRARY = Logger.getLogger("io.grpc");

  private EchoServer() {}

  /** Starts the server. */
  public static void main(String[] args) throws InterruptedException {
    Options options;
    try {
      options = Options.parse(args);
    } catch (Options.WrongOptionException e) {
      System.err.println(e.getMessage());
      System.exit(2);
      return;
    }
    if (options == null) {
      System.out.println(Options.USAGE);
      return;
    }
    LIBRARY.setLevel(Level.OFF);
    HealthStatusManager health = new HealthStatusManager();
    health.setStatus(EchoGrpc.SERVICE_NAME, ServingStatus.SERVING);
    Server server = build(options, health);
    try {
      server.start();
    } catch (IOException e) {
      System.err.println("listen: " + (e.getCause() == null ? e : e.getCause()).getMessage());
      System.exit(1);
    }
    Runtime.getRuntime().addShutdownHook(new Thread(() -> end(server, health)));
    InetSocketAddress address = (InetSocketAddress) server.getListenSockets().get(0);
    System.out.printf(
        address.getAddress() instanceof Inet4Address
            ? "listening on %s:%d%n"
            : "listening on [%s]:%d%n",
        address.getAddress().getHostAddress(),
        address.getPort());
    server.awaitTermination();
  }

  private static Server build(Options options, HealthStatusManager health) {
    ScheduledThreadPoolExecutor timer =
        new ScheduledThreadPoolExecutor(
            1,
            task -> {
              Thread thread = new Thread(task, "delays");
              thread.setDaemon(true);
              return thread;
            });
    timer.setRemoveOnCancelPolicy(true);
    NettyServerBuilder builder =
        NettyServerBuilder.forAddress(options.listen())
            .maxInboundMessageSize(options.maxMessage())
            .addService(
                ServerInterceptors.intercept(
                    Decoding.of(new EchoService(timer).bindService()), new ReturnInterceptor()))
            .addService(health.getHealthService())
            .addService(ProtoReflectionServiceV1.newInstance())
            .addService(ProtoReflectionService.newInstance());
    for (int i = 0; i < options.middleware(); i++) {
      builder.intercept(new CountingInterceptor());
    }
    if (options.executor() == Options.Executor.DIRECT) {
      builder.directExecutor();
    }
    return builder.build();
  }

  private static void end(Server server, HealthStatusManager health) {
    health.enterTerminalState();
    server.shutdown();
    try {
      if (!server.awaitTermination(DRAIN_SECONDS, TimeUnit.SECONDS)) {
        server.shutdownNow();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    // A virtual machine that a signal ends has another exit code than 0.
    Runtime.getRuntime().halt(0);
  }
}
