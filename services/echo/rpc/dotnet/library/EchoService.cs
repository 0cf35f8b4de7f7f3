using Dyno.Echo.V1;
using Grpc.Core;

namespace Dyno.Echo.Library;

/// <summary>dyno.echo.v1.Echo on Grpc.AspNetCore.</summary>
internal sealed class EchoService(EchoOptions options) : V1.Echo.EchoBase
{
    public override async Task<EchoResponse> Echo(EchoRequest request, ServerCallContext context)
    {
        var call = new CallScope(context, options);
        return call.Ready(await EchoHandlers.EchoAsync(call.Limit(request), call));
    }

    public override async Task<CollectResponse> Collect(IAsyncStreamReader<EchoRequest> requests, ServerCallContext context)
    {
        var call = new CallScope(context, options);
        return call.Ready(await EchoHandlers.CollectAsync(call.ReadAllAsync(requests), call));
    }

    public override Task Expand(ExpandRequest request, IServerStreamWriter<EchoResponse> responses, ServerCallContext context)
    {
        var call = new CallScope(context, options);
        return WriteAllAsync(EchoHandlers.ExpandAsync(call.Limit(request), call), responses, call);
    }

    public override Task Chat(IAsyncStreamReader<EchoRequest> requests, IServerStreamWriter<EchoResponse> responses, ServerCallContext context)
    {
        var call = new CallScope(context, options);
        return WriteAllAsync(EchoHandlers.ChatAsync(call.ReadAllAsync(requests), call), responses, call);
    }

    private static async Task WriteAllAsync(IAsyncEnumerable<EchoResponse> from, IServerStreamWriter<EchoResponse> to, CallScope call)
    {
        await foreach (var response in from)
        {
            await to.WriteAsync(call.Ready(response));
        }
    }
}
