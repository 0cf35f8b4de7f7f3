using Dyno.Echo.Health;

namespace Dyno.Echo.Kestrel;

/// <summary>grpc.health.v1.Health: what is here is serving until the program ends.</summary>
internal sealed class HealthHandlers(string[] services, CancellationToken stopping)
{
    public HealthCheckResponse Check(HealthCheckRequest request) => Knows(request)
        ? new HealthCheckResponse { Status = HealthCheckResponse.Types.ServingStatus.Serving }
        : throw new StatusException(StatusCode.NotFound, $"no service {request.Service}");

    /// <summary>Answers at once, and again when the program ends.</summary>
    public async IAsyncEnumerable<HealthCheckResponse> WatchAsync(HealthCheckRequest request, ICall call)
    {
        yield return new HealthCheckResponse
        {
            Status = Knows(request)
                ? HealthCheckResponse.Types.ServingStatus.Serving
                : HealthCheckResponse.Types.ServingStatus.ServiceUnknown,
        };
        using var either = CancellationTokenSource.CreateLinkedTokenSource(call.Ended, stopping);
        await Task.Delay(Timeout.Infinite, either.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        call.Ended.ThrowIfCancellationRequested();
        yield return new HealthCheckResponse { Status = HealthCheckResponse.Types.ServingStatus.NotServing };
    }

    private bool Knows(HealthCheckRequest request) => request.Service == "" || services.Contains(request.Service);
}
