using System.Globalization;
using System.Text;

namespace Dyno.Echo.Kestrel;

/// <summary>The statuses of gRPC that the server itself gives.</summary>
internal static class StatusCode
{
    public const uint Ok = 0;
    public const uint Cancelled = 1;
    public const uint Unknown = 2;
    public const uint DeadlineExceeded = 4;
    public const uint NotFound = 5;
    public const uint ResourceExhausted = 8;
    public const uint Unimplemented = 12;
    public const uint Internal = 13;
}

/// <summary>Ends a call with a status.</summary>
internal sealed class StatusException(uint code, string text) : Exception(text)
{
    public uint Code => code;
}

/// <summary>How a status's message is written in the trailer grpc-message.</summary>
internal static class StatusMessage
{
    /// <summary>
    /// Percent-encodes all but printable ASCII, and the percent sign: "Responses" in the
    /// specification of gRPC over HTTP/2.
    /// </summary>
    public static string Encode(string text)
    {
        if (!text.AsSpan().ContainsAnyExceptInRange(' ', '~') && !text.Contains('%'))
        {
            return text;
        }
        var encoded = new StringBuilder(text.Length * 2);
        foreach (var b in Encoding.UTF8.GetBytes(text))
        {
            if (b is >= (byte)' ' and <= (byte)'~' and not (byte)'%')
            {
                encoded.Append((char)b);
            }
            else
            {
                encoded.Append('%').Append(b.ToString("X2", CultureInfo.InvariantCulture));
            }
        }
        return encoded.ToString();
    }
}
