using System.Diagnostics;
using System.Text;
using Dyno.Echo.V1;

namespace Dyno.Echo;

/// <summary>What the handlers need of the call they answer.</summary>
internal interface ICall
{
    /// <summary>Is cancelled when the caller has cancelled, or the deadline has passed.</summary>
    CancellationToken Ended { get; }

    /// <returns>An exception that ends the call with a status.</returns>
    Exception Failure(uint status, string text);
}

/// <summary>
/// The four kinds of call, whatever carries them. Waits end with an
/// <see cref="OperationCanceledException"/> when the call does.
/// </summary>
internal static class EchoHandlers
{
    /// <summary>Whether a delay keeps the thread that carries it out.</summary>
    public static bool Blocking { get; set; }

    public static async ValueTask<EchoResponse> EchoAsync(EchoRequest request, ICall call)
    {
        if (request.DelayMs > 0)
        {
            await DelayAsync(TimeSpan.FromMilliseconds(request.DelayMs), call);
        }
        if (request.Status != 0)
        {
            throw call.Failure(request.Status, request.Text);
        }
        return new EchoResponse { Text = request.Text, Payload = request.Payload };
    }

    public static async ValueTask<CollectResponse> CollectAsync(IAsyncEnumerable<EchoRequest> requests, ICall call)
    {
        var response = new CollectResponse();
        await foreach (var request in requests)
        {
            await EchoAsync(request, call);
            response.Messages++;
            response.Bytes += (ulong)(Encoding.UTF8.GetByteCount(request.Text) + request.Payload.Length);
        }
        return response;
    }

    public static async IAsyncEnumerable<EchoResponse> ExpandAsync(ExpandRequest request, ICall call)
    {
        var response = await EchoAsync(request.Message ?? new EchoRequest(), call);
        for (uint i = 0; i < request.Count; i++)
        {
            if (i > 0 && request.IntervalUs > 0)
            {
                await DelayAsync(TimeSpan.FromMicroseconds(request.IntervalUs), call);
            }
            yield return response;
        }
    }

    public static async IAsyncEnumerable<EchoResponse> ChatAsync(IAsyncEnumerable<EchoRequest> requests, ICall call)
    {
        await foreach (var request in requests)
        {
            yield return await EchoAsync(request, call);
        }
    }

    // Timers of .NET count milliseconds, by a clock that on Linux moves every 4 ms: they end a
    // little late, or too early, and then there is a rest to wait for.
    private static async Task DelayAsync(TimeSpan delay, ICall call)
    {
        if (Blocking)
        {
            Thread.Sleep(delay);
            return;
        }
        var start = Stopwatch.GetTimestamp();
        for (var left = delay; left > TimeSpan.Zero; left = delay - Stopwatch.GetElapsedTime(start))
        {
            await Task.Delay((int)Math.Min(Math.Ceiling(left.TotalMilliseconds), int.MaxValue), call.Ended);
        }
    }
}
