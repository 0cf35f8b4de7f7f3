using System.Globalization;
using System.Net;

namespace Dyno.Echo;

/// <summary>What the command line says.</summary>
/// <param name="Listen">The address to listen on; port 0 takes a free one.</param>
/// <param name="Middleware">How many layers there are around each call.</param>
/// <param name="MaxMessage">The longest message that is read, in encoded bytes.</param>
/// <param name="Blocking">Whether a delay keeps a thread of the pool.</param>
internal sealed record EchoOptions(IPEndPoint Listen, int Middleware, int MaxMessage, bool Blocking)
{
    public const string Usage = """
        The gRPC echo, on .NET.

          --listen HOST:PORT    address to listen on; port 0 takes a free one (default 127.0.0.1:9000)
          --middleware N        layers around each call, each of which counts it (default 0)
          --max-message BYTES   longest payload of a message (default 4194304)
          --blocking TRUE       a delay keeps a thread, as calls that are not asynchronous do (default false)
          --help                print this

        The runtime reads its settings from the environment: DOTNET_gcServer=0 or 1,
        DOTNET_gcConcurrent=0 or 1, DOTNET_TieredPGO=0 or 1, DOTNET_ThreadPool_ForceMinWorkerThreads=N
        in hexadecimal digits.
        """;

    /// <summary>What a message has around its payload: tags, lengths, and a short text.</summary>
    private const int Framing = 64;

    /// <returns>The options; null if help was asked for.</returns>
    /// <exception cref="FormatException">An option is wrong; the message says which, and why.</exception>
    public static EchoOptions? Parse(ReadOnlySpan<string> args)
    {
        var options = new EchoOptions(new IPEndPoint(IPAddress.Loopback, 9000), 0, (4 << 20) + Framing, false);
        for (var i = 0; i < args.Length; i++)
        {
            var (name, value) = args[i].Split('=', 2) is [var n, var v] ? (n, v) : (args[i], null);
            if (name is "--help" or "-h")
            {
                return null;
            }
            if (name is not ("--listen" or "--middleware" or "--max-message" or "--blocking"))
            {
                throw new FormatException($"{name}: no such option");
            }
            if (value is null)
            {
                value = ++i < args.Length ? args[i] : throw new FormatException($"{name}: needs a value");
            }
            options = name switch
            {
                "--listen" => options with { Listen = Address(value) },
                "--middleware" => options with { Middleware = Number(name, value, 0, 1000) },
                "--blocking" => options with { Blocking = Boolean(name, value) },
                _ => options with { MaxMessage = Number(name, value, 0, 1 << 30) + Framing },
            };
        }
        return options;
    }

    private static int Number(string name, string value, int low, int high) =>
        int.TryParse(value, NumberStyles.None, CultureInfo.InvariantCulture, out var number) && number >= low && number <= high
            ? number
            : throw new FormatException($"{name}: \"{value}\": must be a whole number from {low} to {high}");

    private static bool Boolean(string name, string value) =>
        bool.TryParse(value, out var yes) ? yes : throw new FormatException($"{name}: \"{value}\": must be true or false");

    private static IPEndPoint Address(string value)
    {
        var colon = value.LastIndexOf(':');
        if (colon > 0 && ushort.TryParse(value.AsSpan(colon + 1), NumberStyles.None, CultureInfo.InvariantCulture, out var port))
        {
            var host = value[..colon];
            if (host == "localhost")
            {
                return new IPEndPoint(IPAddress.Loopback, port);
            }
            if (IPAddress.TryParse(host, out var address) && host.Contains(':') == host.StartsWith('['))
            {
                return new IPEndPoint(address, port);
            }
        }
        throw new FormatException($"--listen: \"{value}\": must be HOST:PORT, with an IP address or localhost as the host");
    }
}
