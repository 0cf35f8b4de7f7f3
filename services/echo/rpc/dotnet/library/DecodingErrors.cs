using Microsoft.AspNetCore.Http.Features;

namespace Dyno.Echo.Library;

/// <summary>The status of a message that cannot be decoded.</summary>
internal static class DecodingErrors
{
    // What the library says of any exception but its own. The handlers throw none.
    private const string Unknown = "2";
    private const string UnknownText = "Exception was thrown by handler.";

    /// <summary>Has the call end with INTERNAL, where the library says UNKNOWN.</summary>
    public static async Task AnswerInternal(HttpContext http, RequestDelegate next)
    {
        await next(http);
        Correct(http.Features.GetRequiredFeature<IHttpResponseTrailersFeature>().Trailers);
        if (!http.Response.HasStarted)
        {
            Correct(http.Response.Headers);
        }
    }

    private static void Correct(IHeaderDictionary fields)
    {
        if (fields.GrpcStatus == Unknown && fields.GrpcMessage == UnknownText)
        {
            fields.GrpcStatus = "13";
        }
    }
}
