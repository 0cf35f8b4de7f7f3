package dyno.echo;

import dyno.echo.v1.EchoRequest;
import dyno.echo.v1.ExpandRequest;
import io.grpc.MethodDescriptor;
import io.grpc.ServerMethodDefinition;
import io.grpc.ServerServiceDefinition;
import io.grpc.ServiceDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.io.InputStream;

/**
 * How requests are decoded. The library ends a call with UNKNOWN whose message cannot be decoded,
 * or is too large once it is decompressed. Here such a message becomes a request for the status
 * that says so.
 */
final class Decoding {

  private Decoding() {}

  /** Returns the service with such a decoder for each of its methods. */
  static ServerServiceDefinition of(ServerServiceDefinition service) {
    ServiceDescriptor descriptor = service.getServiceDescriptor();
    ServiceDescriptor.Builder description =
        ServiceDescriptor.newBuilder(descriptor.getName())
            .setSchemaDescriptor(descriptor.getSchemaDescriptor());
    var methods = service.getMethods().stream().map(Decoding::method).toList();
    methods.forEach(method -> description.addMethod(method.getMethodDescriptor()));
    ServerServiceDefinition.Builder builder = ServerServiceDefinition.builder(description.build());
    methods.forEach(builder::addMethod);
    return builder.build();
  }

  private static <RequestT, ResponseT> ServerMethodDefinition<RequestT, ResponseT> method(
      ServerMethodDefinition<RequestT, ResponseT> method) {
    MethodDescriptor<RequestT, ResponseT> descriptor = method.getMethodDescriptor();
    return ServerMethodDefinition.create(
        descriptor.toBuilder()
            .setRequestMarshaller(new RequestMarshaller<>(descriptor.getRequestMarshaller()))
            .build(),
        method.getServerCallHandler());
  }

  private record RequestMarshaller<T>(MethodDescriptor.Marshaller<T> inner)
      implements MethodDescriptor.PrototypeMarshaller<T> {

    @Override
    public InputStream stream(T value) {
      return inner.stream(value);
    }

    @Override
    public T parse(InputStream stream) {
      try {
        return inner.parse(stream);
      } catch (StatusRuntimeException e) {
        return getMessageClass().cast(asking(e.getStatus()));
      }
    }

    private Object asking(Status status) {
      String description = status.getDescription();
      EchoRequest request =
          EchoRequest.newBuilder()
              .setStatus(status.getCode().value())
              .setText(description == null ? "" : description)
              .build();
      return getMessageClass() == ExpandRequest.class
          ? ExpandRequest.newBuilder().setMessage(request).build()
          : request;
    }

    @Override
    public T getMessagePrototype() {
      return ((MethodDescriptor.PrototypeMarshaller<T>) inner).getMessagePrototype();
    }

    @Override
    public Class<T> getMessageClass() {
      return ((MethodDescriptor.PrototypeMarshaller<T>) inner).getMessageClass();
    }
  }
}
