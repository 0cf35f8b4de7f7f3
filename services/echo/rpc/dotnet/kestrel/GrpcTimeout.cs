namespace Dyno.Echo.Kestrel;

/// <summary>The header grpc-timeout.</summary>
internal static class GrpcTimeout
{
    /// <summary>
    /// Reads one to eight digits and a unit: "Timeout" in the specification of gRPC over HTTP/2.
    /// </summary>
    public static bool TryParse(string value, out TimeSpan timeout)
    {
        timeout = default;
        if (value.Length is < 2 or > 9)
        {
            return false;
        }
        long number = 0;
        foreach (var digit in value.AsSpan(0, value.Length - 1))
        {
            if (!char.IsAsciiDigit(digit))
            {
                return false;
            }
            number = number * 10 + (digit - '0');
        }
        long? ticks = value[^1] switch
        {
            'H' => TimeSpan.TicksPerHour,
            'M' => TimeSpan.TicksPerMinute,
            'S' => TimeSpan.TicksPerSecond,
            'm' => TimeSpan.TicksPerMillisecond,
            'u' => TimeSpan.TicksPerMicrosecond,
            'n' => 0,
            _ => null,
        };
        if (ticks is null)
        {
            return false;
        }
        // A tick is 100 ns. 99999999 hours are within the range of TimeSpan.
        timeout = ticks == 0 ? TimeSpan.FromTicks((number + 99) / 100) : TimeSpan.FromTicks(number * ticks.Value);
        return true;
    }
}
