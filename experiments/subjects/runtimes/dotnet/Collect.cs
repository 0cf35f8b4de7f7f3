using System.Diagnostics;
using System.Runtime;
using System.Runtime.Intrinsics;

namespace Dyno.Runtimes;

/// <summary>
/// Many small objects stay alive and are replaced at random, as fast as one thread can. Another one sleeps for a
/// millisecond again and again: what it oversleeps is what a request would wait. pause is of all collections, oldest
/// of those of the oldest generation, in the background or not.
/// </summary>
internal static class Collect
{
    private static readonly TimeSpan Tick = TimeSpan.FromMilliseconds(1);

    public static Dictionary<string, double> Measure(int objects, string latency, TimeSpan duration)
    {
        if (latency != "")
        {
            GCSettings.LatencyMode = Enum.Parse<GCLatencyMode>(latency);
        }
        var table = new Node[objects];
        for (var i = 0; i < objects; i++)
        {
            table[i] = new Node { Next = table[i / 2] };
        }
        GC.Collect();
        List<double> pauses = [], oldest = [], stalls = [];
        GCKind[] kinds = [GCKind.Ephemeral, GCKind.FullBlocking, GCKind.Background];
        var seen = kinds.Select(kind => GC.GetGCMemoryInfo(kind).Index).ToArray();
        var start = Stopwatch.StartNew();
        var sleeper = new Thread(() =>
        {
            while (start.Elapsed < duration)
            {
                var at = Stopwatch.GetTimestamp();
                Thread.Sleep(Tick);
                stalls.Add((Stopwatch.GetElapsedTime(at) - Tick).TotalSeconds);
            }
        });
        sleeper.Start();
        var random = new Random(1);
        long operations = 0;
        for (; operations % 1024 != 0 || start.Elapsed < duration; operations++)
        {
            table[random.Next(objects)] = new Node { Next = new Node() };
            if (operations % 1024 == 0)
            {
                Look();
            }
        }
        var took = start.Elapsed.TotalSeconds;
        sleeper.Join();
        GC.KeepAlive(table);
        Dictionary<string, double> figures = new() { ["collections"] = pauses.Count, ["oldest_collections"] = oldest.Count, ["operations_per_second"] = operations / took };
        Describe(figures, "pause", pauses);
        Describe(figures, "oldest", oldest);
        Describe(figures, "stall", stalls);
        return figures;

        void Look()
        {
            for (var i = 0; i < kinds.Length; i++)
            {
                var info = GC.GetGCMemoryInfo(kinds[i]);
                if (info.Index == seen[i])
                {
                    continue;
                }
                seen[i] = info.Index;
                var sum = 0.0;
                foreach (var pause in info.PauseDurations)
                {
                    sum += pause.TotalSeconds;
                }
                pauses.Add(sum);
                if (kinds[i] != GCKind.Ephemeral)
                {
                    oldest.Add(sum);
                }
            }
        }
    }

    private static void Describe(Dictionary<string, double> figures, string name, List<double> times)
    {
        if (times.Count == 0)
        {
            return; // without collections there is no figure, which is not zero
        }
        times.Sort();
        figures[name + "_mean_seconds"] = times.Average();
        figures[name + "_p99_seconds"] = times[(times.Count * 99 + 99) / 100 - 1];
        figures[name + "_max_seconds"] = times[^1];
    }

    private sealed class Node
    {
        public Node? Next;
#pragma warning disable CS0649 // it only takes room
        public Vector512<byte> Payload;
#pragma warning restore CS0649
    }
}
