using Grpc.Core;

namespace Dyno.Echo.Library;

/// <summary>A call of Grpc.AspNetCore, as the handlers see it.</summary>
internal sealed class CallScope : ICall
{
    private const string EchoInitial = "x-grpc-test-echo-initial";
    private const string EchoTrailing = "x-grpc-test-echo-trailing-bin";

    private readonly ServerCallContext context;

    private CallScope(ServerCallContext context) => this.context = context;

    public CancellationToken Ended => context.CancellationToken;

    public Exception Failure(uint status, string text) => new RpcException(new Status((StatusCode)status, text));

    /// <summary>
    /// Begins a call: metadata that is to come back, and whether answers are compressed.
    /// </summary>
    public static CallScope Begin(ServerCallContext context)
    {
        var http = context.GetHttpContext();
        // The library compresses whatever the caller accepts. Here an answer is compressed only if
        // the question was.
        if (http.Request.Headers.GrpcEncoding != "gzip")
        {
            context.WriteOptions = new WriteOptions(WriteFlags.NoCompress);
        }
        if (http.Request.Headers.TryGetValue(EchoInitial, out var initial))
        {
            http.Response.Headers[EchoInitial] = initial;
        }
        foreach (var entry in context.RequestHeaders)
        {
            if (entry.Key == EchoTrailing)
            {
                context.ResponseTrailers.Add(entry);
            }
        }
        return new CallScope(context);
    }
}
