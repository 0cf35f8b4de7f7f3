using System.Buffers;
using System.Diagnostics;
using System.Text.Json;
using System.Text.Json.Serialization;
using System.Text.Json.Serialization.Metadata;

namespace Dyno.Runtimes;

/// <summary>The echo's answer.</summary>
internal sealed record Message(string Text, string Payload);

[JsonSerializable(typeof(Message))]
internal sealed partial class Generated : JsonSerializerContext;

/// <summary>The echo's answer is encoded by System.Text.Json, by generated code or by reflection.</summary>
internal static class Json
{
    public static Dictionary<string, double> Measure(string by, int bytes, TimeSpan duration)
    {
        var type = by == "generated"
            ? Generated.Default.Message
            : (JsonTypeInfo<Message>)new JsonSerializerOptions { TypeInfoResolver = new DefaultJsonTypeInfoResolver() }.GetTypeInfo(typeof(Message));
        var message = new Message("0123456789abcdef", new string('x', bytes));
        var buffer = new ArrayBufferWriter<byte>(2 * bytes + 128);
        using var writer = new Utf8JsonWriter(buffer);
        const int batch = 100;
        var start = Stopwatch.StartNew();
        while (start.Elapsed < TimeSpan.FromMilliseconds(500)) // what is hot is compiled again
        {
            Encode();
        }
        long operations = 0;
        var before = GC.GetAllocatedBytesForCurrentThread();
        for (start.Restart(); operations == 0 || start.Elapsed < duration; operations += batch)
        {
            for (var i = 0; i < batch; i++)
            {
                Encode();
            }
        }
        var seconds = start.Elapsed.TotalSeconds / operations;
        return new()
        {
            ["operation_seconds"] = seconds,
            ["operations_per_second"] = 1 / seconds,
            ["allocated_bytes"] = (GC.GetAllocatedBytesForCurrentThread() - before) / (double)operations,
            ["message_bytes"] = buffer.WrittenCount,
        };

        void Encode()
        {
            buffer.ResetWrittenCount();
            writer.Reset();
            JsonSerializer.Serialize(writer, message, type);
        }
    }
}
