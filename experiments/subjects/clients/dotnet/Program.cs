using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.NetworkInformation;
using System.Net.Security;
#if CHANNEL
using Grpc.Core;
using Grpc.Net.Client;
#endif

// A client of the gRPC echo; README.md in the folder above has its options and figures. With CHANNEL it calls by
// Grpc.Net.Client, else by the HTTP/2 client that this library uses, and frames messages itself.
Dictionary<string, string> options = new() { ["--warm"] = "none", ["--calls"] = "20000", ["--flight"] = "16" };
for (var i = 0; i + 1 < args.Length; i += 2)
{
    options[args[i]] = args[i + 1];
}
var target = options["--target"];
int calls = Number("--calls"), flight = Number("--flight");
var lifetime = int.Parse(Environment.GetEnvironmentVariable("CLIENT_LIFETIME_MS") ?? "0", CultureInfo.InvariantCulture);
var opened = 0;

var made = Stopwatch.GetTimestamp();
using var handler = new SocketsHttpHandler
{
    SslOptions = new SslClientAuthenticationOptions { RemoteCertificateValidationCallback = (_, _, _, _) => true },
    EnableMultipleHttp2Connections = true,
    PooledConnectionLifetime = lifetime > 0 ? TimeSpan.FromMilliseconds(lifetime) : Timeout.InfiniteTimeSpan,
    ConnectCallback = async (context, cancel) =>
    {
        Interlocked.Increment(ref opened);
        var socket = new System.Net.Sockets.Socket(System.Net.Sockets.SocketType.Stream, System.Net.Sockets.ProtocolType.Tcp) { NoDelay = true };
        await socket.ConnectAsync(context.DnsEndPoint, cancel);
        return new System.Net.Sockets.NetworkStream(socket, ownsSocket: true);
    },
};
byte[] message = [0x0a, 0x10, .. "0123456789abcdef"u8];
#if CHANNEL
using var channel = GrpcChannel.ForAddress($"https://{target}", new GrpcChannelOptions { HttpHandler = handler });
var invoker = channel.CreateCallInvoker();
var bytes = Marshallers.Create(b => b, b => b);
var method = new Method<byte[], byte[]>(MethodType.Unary, "dyno.echo.v1.Echo", "Echo", bytes, bytes);
async Task CallAsync() => await invoker.AsyncUnaryCall(method, null, default, message);
Task ConnectAsync() => channel.ConnectAsync();
#else
using var client = new HttpClient(handler);
byte[] framed = [0, 0, 0, 0, (byte)message.Length, .. message];
var uri = new Uri($"https://{target}/dyno.echo.v1.Echo/Echo");

async Task CallAsync() => await SendAsync(uri);

// A call that the server does not know opens the connection, and compiles little of what a call takes.
async Task ConnectAsync()
{
    using var answer = await client.SendAsync(new HttpRequestMessage(HttpMethod.Head, uri) { Version = HttpVersion.Version20, VersionPolicy = HttpVersionPolicy.RequestVersionExact });
}

async Task SendAsync(Uri to)
{
    using var request = new HttpRequestMessage(HttpMethod.Post, to)
    {
        Version = HttpVersion.Version20,
        VersionPolicy = HttpVersionPolicy.RequestVersionExact,
        Content = new ByteArrayContent(framed) { Headers = { ContentType = new("application/grpc") } },
    };
    request.Headers.TE.Add(new("trailers"));
    using var answer = await client.SendAsync(request, HttpCompletionOption.ResponseHeadersRead);
    var content = await answer.Content.ReadAsByteArrayAsync();
    if (content.Length != framed.Length || !answer.TrailingHeaders.TryGetValues("grpc-status", out var status) || status.Single() != "0")
    {
        throw new InvalidDataException($"{answer.StatusCode}, {content.Length} bytes: no answer of the echo");
    }
}
#endif

if (options["--warm"] == "connect")
{
    await ConnectAsync();
}
else if (options["--warm"] == "calls")
{
    await RepeatAsync(1, 1000);
}
var began = options["--warm"] == "none" ? made : Stopwatch.GetTimestamp();
await CallAsync();
var first = Stopwatch.GetElapsedTime(began).TotalSeconds;
began = Stopwatch.GetTimestamp();
await CallAsync();
var second = Stopwatch.GetElapsedTime(began).TotalSeconds;
began = Stopwatch.GetTimestamp();
var times = await RepeatAsync(flight, calls / flight);
var took = Stopwatch.GetElapsedTime(began).TotalSeconds;
var port = int.Parse(target[(target.LastIndexOf(':') + 1)..], CultureInfo.InvariantCulture);
var connections = IPGlobalProperties.GetIPGlobalProperties().GetActiveTcpConnections()
    .Count(c => c.RemoteEndPoint.Port == port && c.State == TcpState.Established);
Array.Sort(times);
(string, double)[] figures =
[
    ("first_seconds", first), ("second_seconds", second), ("p50_seconds", times[times.Length / 2]),
    ("p99_seconds", times[times.Length * 99 / 100]), ("calls_per_second", times.Length / took), ("connections", connections), ("opened", opened),
];
Console.WriteLine("{" + string.Join(",", figures.Select(f => $"\"{f.Item1}\":{f.Item2.ToString("R", CultureInfo.InvariantCulture)}")) + "}");

int Number(string option) => int.Parse(options[option], CultureInfo.InvariantCulture);

async Task<double[]> RepeatAsync(int at, int each)
{
    var all = new double[at * each];
    await Task.WhenAll(Enumerable.Range(0, at).Select(i => Task.Run(async () =>
    {
        for (var n = i * each; n < (i + 1) * each; n++)
        {
            var start = Stopwatch.GetTimestamp();
            await CallAsync();
            all[n] = Stopwatch.GetElapsedTime(start).TotalSeconds;
        }
    })));
    return all;
}
