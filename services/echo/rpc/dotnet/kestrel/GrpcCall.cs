using System.Buffers;
using System.Buffers.Binary;
using System.IO.Compression;
using System.IO.Pipelines;
using Google.Protobuf;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Server.Kestrel.Core.Features;

namespace Dyno.Echo.Kestrel;

/// <summary>
/// One call: messages out of the request's body and into the response's, each behind a flag and
/// four bytes of length, and the status as a trailer. It follows the specification of gRPC over
/// HTTP/2: github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
/// </summary>
internal sealed class GrpcCall : ICall, IDisposable
{
    private const int PrefixSize = 5;
    private const string EchoInitial = "x-grpc-test-echo-initial";
    private const string EchoTrailing = "x-grpc-test-echo-trailing-bin";

    // A timer of the runtime takes no more. The calls of 49 days end by other means.
    private static readonly TimeSpan LongestTimer = TimeSpan.FromMilliseconds(uint.MaxValue - 1);

    private readonly HttpContext http;
    private readonly PipeReader reader;
    private readonly PipeWriter writer;
    private readonly int maxMessage;
    private readonly bool gzip;
    private readonly bool answerGzip;
    private readonly CancellationTokenSource? deadline;

    /// <exception cref="StatusException">The call's headers do not allow it to be answered.</exception>
    private GrpcCall(HttpContext http, int maxMessage)
    {
        this.http = http;
        this.maxMessage = maxMessage;
        reader = http.Request.BodyReader;
        writer = http.Response.BodyWriter;

        var headers = http.Request.Headers;
        var encoding = headers.GrpcEncoding;
        if (encoding.Count > 0 && encoding != "identity")
        {
            if (encoding != "gzip")
            {
                http.Response.Headers.GrpcAcceptEncoding = "identity,gzip";
                throw new StatusException(StatusCode.Unimplemented, $"the encoding {encoding} is not known; gzip and identity are");
            }
            gzip = true;
            answerGzip = Accepts(headers.GrpcAcceptEncoding, "gzip");
        }
        if (answerGzip)
        {
            http.Response.Headers.GrpcEncoding = "gzip";
        }
        if (headers.TryGetValue(EchoInitial, out var initial))
        {
            http.Response.Headers[EchoInitial] = initial;
        }
        if (headers.GrpcTimeout is [{ } value])
        {
            if (!GrpcTimeout.TryParse(value, out var timeout))
            {
                throw new StatusException(StatusCode.Internal, $"grpc-timeout: \"{value}\" is not one to eight digits and a unit");
            }
            deadline = CancellationTokenSource.CreateLinkedTokenSource(http.RequestAborted);
            deadline.CancelAfter(timeout < LongestTimer ? timeout : LongestTimer);
        }
    }

    public CancellationToken Ended => deadline?.Token ?? http.RequestAborted;

    public Exception Failure(uint status, string text) => new StatusException(status, text);

    public void Dispose() => deadline?.Dispose();

    /// <summary>Answers a request by a handler, and ends it with a status whatever happens.</summary>
    public static async Task AnswerAsync(HttpContext http, int maxMessage, Func<GrpcCall, Task> handler)
    {
        if (http.Request.ContentType is not { } type || !type.StartsWith("application/grpc", StringComparison.Ordinal))
        {
            http.Response.StatusCode = StatusCodes.Status415UnsupportedMediaType;
            return;
        }
        http.Response.ContentType = "application/grpc";
        var trailers = http.Features.GetRequiredFeature<IHttpResponseTrailersFeature>().Trailers;
        if (http.Request.Headers.TryGetValue(EchoTrailing, out var trailing))
        {
            trailers[EchoTrailing] = trailing;
        }
        var (code, text) = (StatusCode.Ok, "");
        GrpcCall? call = null;
        try
        {
            call = new GrpcCall(http, maxMessage);
            await handler(call);
        }
        catch (StatusException e)
        {
            (code, text) = (e.Code, e.Message);
        }
        catch (Exception) when (http.RequestAborted.IsCancellationRequested)
        {
            return; // nobody is there to read a status
        }
        catch (OperationCanceledException) when (call is { deadline.IsCancellationRequested: true })
        {
            (code, text) = (StatusCode.DeadlineExceeded, "the deadline has passed");
        }
        catch (InvalidProtocolBufferException e)
        {
            (code, text) = (StatusCode.Internal, e.Message);
        }
        catch (InvalidDataException e)
        {
            (code, text) = (StatusCode.Internal, e.Message);
        }
        finally
        {
            call?.Dispose();
        }
        trailers.GrpcStatus = code == StatusCode.Ok ? "0" : code.ToString(System.Globalization.CultureInfo.InvariantCulture);
        if (text != "")
        {
            trailers.GrpcMessage = StatusMessage.Encode(text);
        }
    }

    /// <summary>
    /// Takes away what Kestrel limits in a request's body: its length, and how slowly it may come.
    /// A stream of messages has neither limit.
    /// </summary>
    public void LiftBodyLimits()
    {
        if (http.Features.Get<IHttpMinRequestBodyDataRateFeature>() is { } rate)
        {
            rate.MinDataRate = null;
        }
        if (http.Features.Get<IHttpMaxRequestBodySizeFeature>() is { IsReadOnly: false } size)
        {
            size.MaxRequestBodySize = null;
        }
    }

    /// <summary>Reads the only message of a request, and the request to its end.</summary>
    public async ValueTask<T> ReadOnlyMessageAsync<T>(MessageParser<T> parser)
        where T : class, IMessage<T>
    {
        var message = await ReadAsync(parser) ?? throw new StatusException(StatusCode.Internal, "the request ended without a message");
        return await ReadAsync(parser) is null
            ? message
            : throw new StatusException(StatusCode.Internal, "the request has more than one message");
    }

    /// <summary>Reads messages to the request's end.</summary>
    public async IAsyncEnumerable<T> ReadAllAsync<T>(MessageParser<T> parser)
        where T : class, IMessage<T>
    {
        while (await ReadAsync(parser) is { } message)
        {
            yield return message;
        }
    }

    /// <returns>The next message; null at the request's end.</returns>
    private async ValueTask<T?> ReadAsync<T>(MessageParser<T> parser)
        where T : class, IMessage<T>
    {
        // Without a deadline there is nothing to wait for but the request, which ends a read
        // by itself when it is aborted.
        var ended = deadline?.Token ?? CancellationToken.None;
        while (true)
        {
            var result = await reader.ReadAsync(ended);
            var buffer = result.Buffer;
            if (TryTake(ref buffer, out var message, out var compressed))
            {
                var parsed = compressed ? ParseGzip(parser, message) : parser.ParseFrom(message);
                reader.AdvanceTo(buffer.Start);
                return parsed;
            }
            if (result.IsCompleted)
            {
                if (!buffer.IsEmpty)
                {
                    throw new StatusException(StatusCode.Internal, "the request ended within a message");
                }
                reader.AdvanceTo(buffer.End);
                return null;
            }
            reader.AdvanceTo(buffer.Start, buffer.End);
        }
    }

    /// <summary>Takes a message from the start of a buffer, if all of it is there.</summary>
    private bool TryTake(ref ReadOnlySequence<byte> buffer, out ReadOnlySequence<byte> message, out bool compressed)
    {
        message = default;
        compressed = false;
        if (buffer.Length < PrefixSize)
        {
            return false;
        }
        Span<byte> prefix = stackalloc byte[PrefixSize];
        buffer.Slice(0, PrefixSize).CopyTo(prefix);
        compressed = prefix[0] == 1;
        if (prefix[0] > 1 || (compressed && !gzip))
        {
            throw new StatusException(StatusCode.Internal, "a message is compressed, and no header says how");
        }
        var length = BinaryPrimitives.ReadUInt32BigEndian(prefix[1..]);
        if (length > maxMessage)
        {
            throw TooLarge(length);
        }
        if (buffer.Length < PrefixSize + length)
        {
            return false;
        }
        message = buffer.Slice(PrefixSize, length);
        buffer = buffer.Slice(PrefixSize + length);
        return true;
    }

    private StatusException TooLarge(long length) =>
        new(StatusCode.ResourceExhausted, $"a message of {length} bytes or more: the limit is {maxMessage}");

    private T ParseGzip<T>(MessageParser<T> parser, ReadOnlySequence<byte> compressed)
        where T : class, IMessage<T>
    {
        using var source = new GZipStream(new MemoryStream(compressed.ToArray()), CompressionMode.Decompress);
        var plain = new ArrayBufferWriter<byte>();
        while (true)
        {
            var read = source.Read(plain.GetSpan(4096));
            if (read == 0)
            {
                return parser.ParseFrom(plain.WrittenSpan);
            }
            plain.Advance(read);
            if (plain.WrittenCount > maxMessage)
            {
                throw TooLarge(plain.WrittenCount);
            }
        }
    }

    /// <summary>
    /// Writes a message that nothing follows. It leaves with the status when the call ends.
    /// </summary>
    public async ValueTask WriteLastAsync(IMessage message)
    {
        // The writer gives out memory only after the header.
        await http.Response.StartAsync();
        Write(message);
    }

    /// <summary>Writes a message and sends it, and waits while the caller does not read.</summary>
    public async ValueTask WriteAsync(IMessage message)
    {
        if (!http.Response.HasStarted)
        {
            await http.Response.StartAsync();
        }
        Write(message);
        await writer.FlushAsync(deadline?.Token ?? CancellationToken.None);
        // A flush does not say that the caller has gone.
        Ended.ThrowIfCancellationRequested();
    }

    private void Write(IMessage message)
    {
        var size = message.CalculateSize();
        // GZipStream makes nothing of nothing, which is no gzip.
        if (answerGzip && size > 0)
        {
            var compressed = new MemoryStream();
            using (var target = new GZipStream(compressed, CompressionLevel.Fastest, leaveOpen: true))
            {
                message.WriteTo(target);
            }
            WritePrefix(compressed: true, (int)compressed.Length);
            writer.Write(compressed.GetBuffer().AsSpan(0, (int)compressed.Length));
            return;
        }
        WritePrefix(compressed: false, size);
        message.WriteTo(writer);
    }

    private void WritePrefix(bool compressed, int length)
    {
        var prefix = writer.GetSpan(PrefixSize);
        prefix[0] = compressed ? (byte)1 : (byte)0;
        BinaryPrimitives.WriteInt32BigEndian(prefix[1..], length);
        writer.Advance(PrefixSize);
    }

    private static bool Accepts(string? header, string encoding)
    {
        foreach (var one in header.AsSpan().Split(','))
        {
            if (header.AsSpan()[one].Trim().SequenceEqual(encoding))
            {
                return true;
            }
        }
        return false;
    }
}
