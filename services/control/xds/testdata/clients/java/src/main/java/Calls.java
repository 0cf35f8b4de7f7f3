import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Calls a service that is found over xDS. Each line of standard input has the timeout of a call in seconds, the number of
 * calls, and perhaps fields of the header as name=value. It answers each line with "OK", or with the status of the first
 * call that failed and its details.
 */
public final class Calls {
    private Calls() {}

    private static final MethodDescriptor.Marshaller<byte[]> BYTES = new MethodDescriptor.Marshaller<>() {
        @Override
        public InputStream stream(byte[] value) {
            return new ByteArrayInputStream(value);
        }

        @Override
        public byte[] parse(InputStream stream) {
            try {
                return stream.readAllBytes();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    };

    private static final MethodDescriptor<byte[], byte[]> CHECK = MethodDescriptor.newBuilder(BYTES, BYTES)
            .setType(MethodDescriptor.MethodType.UNARY).setFullMethodName("grpc.health.v1.Health/Check").build();

    public static void main(String[] args) throws IOException {
        ManagedChannel channel = Grpc.newChannelBuilder(args[0], InsecureChannelCredentials.create()).build();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            Metadata header = new Metadata();
            for (String field : List.of(words).subList(2, words.length)) {
                String[] pair = field.split("=");
                header.put(Metadata.Key.of(pair[0], Metadata.ASCII_STRING_MARSHALLER), pair[1]);
            }
            Channel with = ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(header));
            System.out.println(call(with, (long) (1000 * Double.parseDouble(words[0])), Integer.parseInt(words[1])));
        }
        channel.shutdownNow();
    }

    private static String call(Channel channel, long milliseconds, int times) {
        for (int i = 0; i < times; i++) {
            try {
                CallOptions options = CallOptions.DEFAULT.withWaitForReady().withDeadlineAfter(milliseconds, TimeUnit.MILLISECONDS);
                ClientCalls.blockingUnaryCall(channel, CHECK, options, new byte[0]);
            } catch (StatusRuntimeException e) {
                return e.getStatus().getCode() + " " + e.getStatus().getDescription();
            }
        }
        return "OK";
    }
}
