using Grpc.Core;
using Grpc.Core.Interceptors;

namespace Dyno.Echo.Library;

/// <summary>A layer around calls of each kind.</summary>
internal sealed class CountingInterceptor(LayerCounter counter) : Interceptor
{
    public override Task<TResponse> UnaryServerHandler<TRequest, TResponse>(
        TRequest request, ServerCallContext context, UnaryServerMethod<TRequest, TResponse> continuation)
    {
        counter.Count();
        return continuation(request, context);
    }

    public override Task<TResponse> ClientStreamingServerHandler<TRequest, TResponse>(
        IAsyncStreamReader<TRequest> requests, ServerCallContext context, ClientStreamingServerMethod<TRequest, TResponse> continuation)
    {
        counter.Count();
        return continuation(requests, context);
    }

    public override Task ServerStreamingServerHandler<TRequest, TResponse>(
        TRequest request, IServerStreamWriter<TResponse> responses, ServerCallContext context,
        ServerStreamingServerMethod<TRequest, TResponse> continuation)
    {
        counter.Count();
        return continuation(request, responses, context);
    }

    public override Task DuplexStreamingServerHandler<TRequest, TResponse>(
        IAsyncStreamReader<TRequest> requests, IServerStreamWriter<TResponse> responses, ServerCallContext context,
        DuplexStreamingServerMethod<TRequest, TResponse> continuation)
    {
        counter.Count();
        return continuation(requests, responses, context);
    }
}
