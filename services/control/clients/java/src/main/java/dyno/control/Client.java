package dyno.control;

import dyno.control.v1.ControlGrpc;
import dyno.control.v1.ControlGrpc.ControlBlockingStub;
import dyno.control.v1.ControlGrpc.ControlStub;
import dyno.control.v1.ControlOuterClass.*;
import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptor;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.MetadataUtils;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * A client of dyno's control plane, with a connection to each replica. Messages are those of control.proto. Its methods
 * may be called from any thread.
 */
public final class Client implements AutoCloseable {
    /** Of a call other than a watch. */
    static final Duration REQUEST_TIMEOUT = Duration.ofSeconds(10);

    /** Another server may answer. */
    private static final Set<Status.Code> ELSEWHERE = Set.of(Status.Code.UNAVAILABLE, Status.Code.DEADLINE_EXCEEDED);

    /** An answer may have a document of the largest size. */
    private static final int MAX_MESSAGE = 16 << 20;

    /** How a client works. Only the servers must be given, such as 127.0.0.1:7101. */
    public static final class Config {
        public List<String> servers = List.of();
        public String namespace = "default";
        /** Name and labels choose the program for gray releases. */
        public String name = "";
        public Map<String, String> labels = Map.of();
        public String token = "";
        /** TlsChannelCredentials, or none. */
        public ChannelCredentials credentials = InsecureChannelCredentials.create();
    }

    /** A replica, with its connection. */
    record Server(String address, ManagedChannel channel, ControlBlockingStub stub, ControlStub streams) {}

    final Config config;
    final List<Server> servers = new ArrayList<>();

    public Client(Config config) {
        if (config.servers.isEmpty()) {
            throw new IllegalArgumentException("servers: one must be given, such as 127.0.0.1:7101");
        }
        this.config = config;
        Metadata header = new Metadata();
        if (!config.token.isEmpty()) {
            header.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + config.token);
        }
        for (String address : config.servers) {
            // A dead server is noticed by pings.
            ManagedChannel channel = Grpc.newChannelBuilder(address, config.credentials).maxInboundMessageSize(MAX_MESSAGE)
                    .keepAliveTime(20, TimeUnit.SECONDS).keepAliveTimeout(10, TimeUnit.SECONDS).build();
            ClientInterceptor token = MetadataUtils.newAttachHeadersInterceptor(header);
            servers.add(new Server(address, channel, ControlGrpc.newBlockingStub(channel).withInterceptors(token),
                    ControlGrpc.newStub(channel).withInterceptors(token)));
        }
    }

    /** Closes the connections. Close registrations, watches and sessions before. */
    @Override
    public void close() {
        servers.forEach(s -> s.channel().shutdownNow());
    }

    /** Calls an operation of control.proto. If a server cannot be reached, the next one is asked. */
    public <T> T call(Function<ControlBlockingStub, T> operation) {
        Route route = new Route(servers);
        for (int left = servers.size() - 1; ; left--) {
            try {
                return operation.apply(route.server().stub().withDeadlineAfter(REQUEST_TIMEOUT));
            } catch (StatusRuntimeException e) {
                if (!ELSEWHERE.contains(e.getStatus().getCode()) || left == 0) {
                    throw e;
                }
                route.failed(e);
            }
        }
    }

    public Ref ref(Kind kind, String name, String id) {
        return Ref.newBuilder().setKind(kind).setNamespace(config.namespace).setName(name).setId(id).build();
    }

    /** Reads a configuration as it is now. Unlike a watch it has secrets, and no gray release. */
    public Resource config(String name) {
        GetRequest request = GetRequest.newBuilder().setRef(ref(Kind.KIND_CONFIG, name, "")).build();
        return call(stub -> stub.get(request)).getResource();
    }

    /** Watches the resources of some kinds: all of the namespace, or by name. That of an instance is its service's. */
    public Watch watch(List<Kind> kinds, String... names) {
        return new Watch(this, Query.newBuilder().setNamespace(config.namespace).addAllKinds(kinds).addAllNames(List.of(names))
                .setClient(config.name).putAllLabels(config.labels));
    }

    /** Registers an instance, and keeps it registered until the Registration is closed. It returns at once. */
    public Registration register(Instance instance, String service, String id) {
        return new Registration(this, ref(Kind.KIND_INSTANCE, service, id), instance);
    }

    /**
     * Begins a session, which is renewed until it is closed or lost. Its name is for people. It is lost after a number of
     * seconds (from 2 to 3600) without an answer to a renewal, or if the control plane has ended it.
     */
    public Session begin(String name, Duration ttl) {
        return new Session(this, name, ttl);
    }

    /** Adds to a counter, which begins with 0, and returns its value. It counts once, even if a server is asked again. */
    public long add(String counter, long number) {
        Conditions once = Conditions.newBuilder().setIdempotencyKey(UUID.randomUUID().toString()).build();
        AddRequest request = AddRequest.newBuilder().setRef(ref(Kind.KIND_COUNTER, counter, "")).setAdd(number).setConditions(once).build();
        return call(stub -> stub.add(request)).getResource().getCounter().getValue();
    }

    /** Removes a resource, which may have been removed already. */
    void remove(RemoveRequest request) {
        try {
            call(stub -> stub.remove(request));
        } catch (StatusRuntimeException e) {
            if (e.getStatus().getCode() != Status.Code.NOT_FOUND) {
                throw e;
            }
        }
    }
}
