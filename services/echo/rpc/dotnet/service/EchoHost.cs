using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Server.Kestrel.Core;

namespace Dyno.Echo;

/// <summary>The life of a program: options, listener, ready line, end.</summary>
internal static class EchoHost
{
    /// <summary>How long calls may go on after SIGTERM, before they are cut.</summary>
    private static readonly TimeSpan Drain = TimeSpan.FromSeconds(3);

    /// <param name="args">The command line.</param>
    /// <param name="add">Adds the services that the application needs.</param>
    /// <param name="map">Maps the methods to what answers them.</param>
    /// <returns>The exit code.</returns>
    public static async Task<int> RunAsync(
        string[] args, Action<IServiceCollection, EchoOptions> add, Action<WebApplication, EchoOptions> map)
    {
        EchoOptions? options;
        try
        {
            options = EchoOptions.Parse(args);
        }
        catch (FormatException e)
        {
            await Console.Error.WriteLineAsync(e.Message);
            return 2;
        }
        if (options is null)
        {
            Console.WriteLine(EchoOptions.Usage);
            return 0;
        }

        EchoHandlers.Blocking = options.Blocking;
        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.Services.Configure<HostOptions>(host => host.ShutdownTimeout = Drain);
        builder.WebHost.ConfigureKestrel(kestrel =>
        {
            kestrel.Listen(options.Listen, listener => listener.Protocols = HttpProtocols.Http2);
        });
        add(builder.Services, options);

        await using var app = builder.Build();
        map(app, options);
        try
        {
            await app.StartAsync();
        }
        catch (IOException e)
        {
            await Console.Error.WriteLineAsync($"listen: {e.Message}");
            return 1;
        }
        var address = new Uri(app.Services.GetRequiredService<IServer>().Features.GetRequiredFeature<IServerAddressesFeature>().Addresses.Single());
        Console.WriteLine($"listening on {address.Authority}");
        await app.WaitForShutdownAsync();
        return 0;
    }
}
