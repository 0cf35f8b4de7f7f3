package dyno.echo;

import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;

/**
 * Sends back some of what a call brings: metadata under two keys, and its compression. The
 * library compresses nothing by itself, and only what the caller accepts.
 */
final class ReturnInterceptor implements ServerInterceptor {

  private static final Metadata.Key<String> INITIAL =
      Metadata.Key.of("x-grpc-test-echo-initial", Metadata.ASCII_STRING_MARSHALLER);
  private static final Metadata.Key<byte[]> TRAILING =
      Metadata.Key.of("x-grpc-test-echo-trailing-bin", Metadata.BINARY_BYTE_MARSHALLER);
  private static final Metadata.Key<String> ENCODING =
      Metadata.Key.of("grpc-encoding", Metadata.ASCII_STRING_MARSHALLER);

  @Override
  public <RequestT, ResponseT> ServerCall.Listener<RequestT> interceptCall(
      ServerCall<RequestT, ResponseT> call,
      Metadata headers,
      ServerCallHandler<RequestT, ResponseT> next) {
    if ("gzip".equals(headers.get(ENCODING))) {
      call.setCompression("gzip");
    }
    if (!headers.containsKey(INITIAL) && !headers.containsKey(TRAILING)) {
      return next.startCall(call, headers);
    }
    return next.startCall(
        new SimpleForwardingServerCall<RequestT, ResponseT>(call) {
          @Override
          public void sendHeaders(Metadata responseHeaders) {
            copy(INITIAL, headers, responseHeaders);
            super.sendHeaders(responseHeaders);
          }

          @Override
          public void close(Status status, Metadata trailers) {
            copy(TRAILING, headers, trailers);
            super.close(status, trailers);
          }
        },
        headers);
  }

  private static <T> void copy(Metadata.Key<T> key, Metadata from, Metadata to) {
    Iterable<T> values = from.getAll(key);
    if (values != null) {
      values.forEach(value -> to.put(key, value));
    }
  }
}
