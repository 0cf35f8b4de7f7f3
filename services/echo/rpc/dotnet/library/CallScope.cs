using Dyno.Echo.V1;
using Google.Protobuf;
using Grpc.Core;

namespace Dyno.Echo.Library;

/// <summary>A call of Grpc.AspNetCore, as the handlers see it.</summary>
internal sealed class CallScope : ICall
{
    private const string EchoInitial = "x-grpc-test-echo-initial";
    private const string EchoTrailing = "x-grpc-test-echo-trailing-bin";

    private static readonly WriteOptions Plain = new(WriteFlags.NoCompress);
    private static readonly WriteOptions Compressed = new();

    private readonly ServerCallContext context;
    private readonly EchoOptions options;
    private readonly bool gzip;

    public CancellationToken Ended => context.CancellationToken;

    public Exception Failure(uint status, string text) => new RpcException(new Status((StatusCode)status, text));

    /// <summary>
    /// Begins a call: metadata that is to come back, and whether answers are compressed.
    /// </summary>
    public CallScope(ServerCallContext context, EchoOptions options)
    {
        this.context = context;
        this.options = options;
        var http = context.GetHttpContext();
        // The library compresses whatever the caller accepts. Here an answer is compressed only if
        // the question was.
        gzip = http.Request.Headers.GrpcEncoding == "gzip";
        if (!gzip)
        {
            context.WriteOptions = Plain;
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
    }

    /// <summary>
    /// Refuses a message that is too large once it is decompressed: the library limits what comes.
    /// </summary>
    public T Limit<T>(T message)
        where T : IMessage
    {
        if (gzip && message.CalculateSize() > options.MaxMessage)
        {
            throw new RpcException(new Status(StatusCode.ResourceExhausted, $"decompressed, the message is longer than {options.MaxMessage} bytes"));
        }
        return message;
    }

    /// <summary>
    /// Has an empty answer sent as it is: GZipStream makes nothing of nothing, which is no gzip.
    /// </summary>
    public T Ready<T>(T answer)
        where T : IMessage
    {
        if (gzip)
        {
            context.WriteOptions = answer.CalculateSize() == 0 ? Plain : Compressed;
        }
        return answer;
    }

    /// <summary>Reads messages to the end of the request.</summary>
    public async IAsyncEnumerable<EchoRequest> ReadAllAsync(IAsyncStreamReader<EchoRequest> requests)
    {
        while (await requests.MoveNext(context.CancellationToken))
        {
            yield return Limit(requests.Current);
        }
    }
}
