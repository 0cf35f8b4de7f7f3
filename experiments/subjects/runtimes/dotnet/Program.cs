using System.Globalization;
using Dyno.Runtimes;

// The loops of the Go program next to this folder, in C#, and JSON. One line of JSON holds the figures.
var options = args.Skip(1).Select(arg => arg.Split('=', 2)).ToDictionary(pair => pair[0], pair => pair.ElementAtOrDefault(1) ?? "");
Dictionary<string, double>? figures = args is [var command, ..]
    ? command switch
    {
        "create" => Create.Measure(Number("--units", 1000), Milliseconds(200)),
        "layers" => Layers.Measure(Number("--layers", 5), Milliseconds(200)),
        "json" => Json.Measure(options.GetValueOrDefault("--by", "generated"), Number("--bytes", 1024), Milliseconds(200)),
        "collect" => Collect.Measure(Number("--objects", 300_000), options.GetValueOrDefault("--latency", ""), Milliseconds(2000)),
        _ => null,
    }
    : null;
if (figures is null)
{
    Console.Error.WriteLine("want create, layers, json or collect, and options as --name=value");
    return 2;
}
Console.WriteLine("{" + string.Join(",", figures.Select(f => $"\"{f.Key}\":{f.Value.ToString("R", CultureInfo.InvariantCulture)}")) + "}");
return 0;

TimeSpan Milliseconds(int otherwise) => TimeSpan.FromMilliseconds(Number("--milliseconds", otherwise));

int Number(string option, int otherwise) =>
    options.TryGetValue(option, out var value) ? int.Parse(value, CultureInfo.InvariantCulture) : otherwise;
