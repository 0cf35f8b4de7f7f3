using System.Diagnostics;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;

namespace Dyno.Runtimes;

/// <summary>
/// Layers of ASP.NET Core's pipeline around a request that never leaves memory. Each checks the request's credential.
/// </summary>
internal static class Layers
{
    public static Dictionary<string, double> Measure(int layers, TimeSpan duration)
    {
        const int batch = 10_000;
        var http = new DefaultHttpContext();
        http.Request.Headers.Authorization = "Bearer token";
        RequestDelegate bare = Pipeline(0), layered = Pipeline(layers);
        var warm = Stopwatch.StartNew();
        while (warm.Elapsed < TimeSpan.FromMilliseconds(500))
        {
            Serve(bare);
            Serve(layered);
        }
        long added = 0, rounds = 0;
        var before = GC.GetAllocatedBytesForCurrentThread();
        for (var start = Stopwatch.StartNew(); rounds == 0 || start.Elapsed < duration; rounds++)
        {
            added += Serve(layered) - Serve(bare);
        }
        double n = rounds * batch;
        return new()
        {
            ["operation_seconds"] = added / n / Stopwatch.Frequency,
            ["allocated_bytes"] = (GC.GetAllocatedBytesForCurrentThread() - before) / n,
        };

        long Serve(RequestDelegate pipeline)
        {
            var start = Stopwatch.GetTimestamp();
            for (var i = 0; i < batch; i++)
            {
                pipeline(http).GetAwaiter().GetResult();
            }
            return Stopwatch.GetTimestamp() - start;
        }
    }

    private static RequestDelegate Pipeline(int layers)
    {
        var app = new ApplicationBuilder(new ServiceCollection().BuildServiceProvider());
        for (var i = 0; i < layers; i++)
        {
            app.Use(async (HttpContext context, RequestDelegate next) =>
            {
                if (!context.Request.Headers.Authorization.ToString().StartsWith("Bearer ", StringComparison.Ordinal))
                {
                    context.Response.StatusCode = StatusCodes.Status403Forbidden;
                    return;
                }
                await next(context);
            });
        }
        app.Run(_ => Task.CompletedTask);
        return app.Build();
    }
}
