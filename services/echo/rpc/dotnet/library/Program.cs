using Dyno.Echo;
using Dyno.Echo.Library;
using Microsoft.Extensions.Diagnostics.HealthChecks;

const string Service = "dyno.echo.v1.Echo";

return await EchoHost.RunAsync(
    args,
    (services, options) =>
    {
        services.AddSingleton(options);
        services.AddGrpc(grpc =>
        {
            grpc.MaxReceiveMessageSize = options.MaxMessage;
            grpc.ResponseCompressionAlgorithm = "gzip";
            for (var i = 0; i < options.Middleware; i++)
            {
                grpc.Interceptors.Add<CountingInterceptor>(new LayerCounter());
            }
        });
        services.AddGrpcReflection();
        services.AddGrpcHealthChecks(health => health.Services.Map(Service, _ => true)).AddCheck(Service, () => HealthCheckResult.Healthy());
    },
    (app, _) =>
    {
        app.Use(DecodingErrors.AnswerInternal);
        app.UseGrpcWeb(new GrpcWebOptions { DefaultEnabled = true });
        app.MapGrpcService<EchoService>();
        app.MapGrpcReflectionService();
        app.MapGrpcHealthChecksService();
    });
