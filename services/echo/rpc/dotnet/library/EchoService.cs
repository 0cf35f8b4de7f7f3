using Dyno.Echo.V1;
using Grpc.Core;

namespace Dyno.Echo.Library;

/// <summary>dyno.echo.v1.Echo on Grpc.AspNetCore.</summary>
internal sealed class EchoService : V1.Echo.EchoBase
{
    public override Task<EchoResponse> Echo(EchoRequest request, ServerCallContext context) =>
        EchoHandlers.EchoAsync(request, CallScope.Begin(context)).AsTask();

    public override Task<CollectResponse> Collect(IAsyncStreamReader<EchoRequest> requests, ServerCallContext context) =>
        EchoHandlers.CollectAsync(requests.ReadAllAsync(), CallScope.Begin(context)).AsTask();

    public override Task Expand(ExpandRequest request, IServerStreamWriter<EchoResponse> responses, ServerCallContext context) =>
        WriteAllAsync(EchoHandlers.ExpandAsync(request, CallScope.Begin(context)), responses);

    public override Task Chat(IAsyncStreamReader<EchoRequest> requests, IServerStreamWriter<EchoResponse> responses, ServerCallContext context) =>
        WriteAllAsync(EchoHandlers.ChatAsync(requests.ReadAllAsync(), CallScope.Begin(context)), responses);

    private static async Task WriteAllAsync(IAsyncEnumerable<EchoResponse> from, IServerStreamWriter<EchoResponse> to)
    {
        await foreach (var response in from)
        {
            await to.WriteAsync(response);
        }
    }
}
