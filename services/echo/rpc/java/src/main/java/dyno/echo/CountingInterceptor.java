package dyno.echo;

import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import java.util.concurrent.atomic.AtomicLong;

/** A layer around each call: it counts those that go through it. */
final class CountingInterceptor implements ServerInterceptor {

  private final AtomicLong calls = new AtomicLong();

  @Override
  public <RequestT, ResponseT> ServerCall.Listener<RequestT> interceptCall(
      ServerCall<RequestT, ResponseT> call,
      Metadata headers,
      ServerCallHandler<RequestT, ResponseT> next) {
    calls.incrementAndGet();
    return next.startCall(call, headers);
  }
}
