using System.Diagnostics;

namespace Dyno.Runtimes;

/// <summary>Tasks that are handed to the thread pool, in batches.</summary>
internal static class Create
{
    public static Dictionary<string, double> Measure(int units, TimeSpan duration)
    {
        long created = 0, ran = 0, batches = 0;
        // What is hot is compiled again after a tenth of a second.
        var warm = Stopwatch.StartNew();
        while (warm.Elapsed < TimeSpan.FromMilliseconds(500))
        {
            Batch(units, out _, out _);
        }
        for (var start = Stopwatch.StartNew(); batches == 0 || start.Elapsed < duration; batches++)
        {
            Batch(units, out var c, out var r);
            created += c;
            ran += r;
        }
        double n = batches * units;
        return new()
        {
            ["operation_seconds"] = created / n / Stopwatch.Frequency,
            ["run_seconds"] = ran / n / Stopwatch.Frequency,
        };
    }

    private static void Batch(int units, out long created, out long ran)
    {
        using var done = new CountdownEvent(units);
        Action signal = () => done.Signal();
        var began = Stopwatch.GetTimestamp();
        for (var i = 0; i < units; i++)
        {
            Task.Run(signal);
        }
        created = Stopwatch.GetTimestamp() - began;
        done.Wait();
        ran = Stopwatch.GetTimestamp() - began;
    }
}
