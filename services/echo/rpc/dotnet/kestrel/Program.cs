using Dyno.Echo;
using Dyno.Echo.Kestrel;
using Dyno.Echo.Health;
using Dyno.Echo.Reflection;
using Dyno.Echo.V1;
using Google.Protobuf;

return await EchoHost.RunAsync(args, (_, _) => { }, (app, options) =>
{
    for (var i = 0; i < options.Middleware; i++)
    {
        var layer = new LayerCounter();
        app.Use(async (http, next) =>
        {
            layer.Count();
            await next(http);
        });
    }
    Map("dyno.echo.v1.Echo/Echo", call => UnaryAsync(call, EchoRequest.Parser, request => EchoHandlers.EchoAsync(request, call)));
    Map("dyno.echo.v1.Echo/Collect", async call =>
        await call.WriteLastAsync(await EchoHandlers.CollectAsync(Requests(call, EchoRequest.Parser), call)));
    Map("dyno.echo.v1.Echo/Expand", async call =>
        await StreamAsync(call, EchoHandlers.ExpandAsync(await call.ReadOnlyMessageAsync(ExpandRequest.Parser), call)));
    Map("dyno.echo.v1.Echo/Chat", call => StreamAsync(call, EchoHandlers.ChatAsync(Requests(call, EchoRequest.Parser), call)));

    var health = new HealthHandlers(["dyno.echo.v1.Echo"], app.Lifetime.ApplicationStopping);
    Map("grpc.health.v1.Health/Check", call => UnaryAsync(call, HealthCheckRequest.Parser, request => ValueTask.FromResult(health.Check(request))));
    Map("grpc.health.v1.Health/Watch", async call =>
        await StreamAsync(call, health.WatchAsync(await call.ReadOnlyMessageAsync(HealthCheckRequest.Parser), call)));

    var reflection = new ReflectionHandlers(EchoReflection.Descriptor, HealthReflection.Descriptor, ReflectionReflection.Descriptor);
    foreach (var version in (ReadOnlySpan<string>)["v1", "v1alpha"])
    {
        Map($"grpc.reflection.{version}.ServerReflection/ServerReflectionInfo", call =>
            StreamAsync(call, reflection.InfoAsync(Requests(call, ServerReflectionRequest.Parser))));
    }

    app.MapFallback("{**method}", http => GrpcCall.AnswerAsync(http, options.MaxMessage, _ =>
        throw new StatusException(StatusCode.Unimplemented, $"no method {http.Request.Path}")));

    void Map(string method, Func<GrpcCall, Task> handler) =>
        app.MapPost(method, http => GrpcCall.AnswerAsync(http, options.MaxMessage, handler));
});

static async Task UnaryAsync<TRequest, TResponse>(GrpcCall call, MessageParser<TRequest> parser, Func<TRequest, ValueTask<TResponse>> handler)
    where TRequest : class, IMessage<TRequest>
    where TResponse : IMessage
{
    await call.WriteLastAsync(await handler(await call.ReadOnlyMessageAsync(parser)));
}

static IAsyncEnumerable<T> Requests<T>(GrpcCall call, MessageParser<T> parser)
    where T : class, IMessage<T>
{
    call.LiftBodyLimits();
    return call.ReadAllAsync(parser);
}

static async Task StreamAsync<T>(GrpcCall call, IAsyncEnumerable<T> responses)
    where T : IMessage
{
    await foreach (var response in responses)
    {
        await call.WriteAsync(response);
    }
}
