using Dyno.Echo.Reflection;
using Google.Protobuf;
using Google.Protobuf.Reflection;

namespace Dyno.Echo.Kestrel;

/// <summary>
/// grpc.reflection.v1.ServerReflection: what the program's .proto files declare. There are no
/// extensions in them.
/// </summary>
internal sealed class ReflectionHandlers
{
    private readonly FileDescriptor[] files;
    private readonly Dictionary<string, FileDescriptor> bySymbol = [];

    /// <param name="files">The files, none of which imports another.</param>
    public ReflectionHandlers(params FileDescriptor[] files)
    {
        this.files = files;
        foreach (var file in files)
        {
            foreach (var service in file.Services)
            {
                bySymbol[service.FullName] = file;
                foreach (var method in service.Methods)
                {
                    bySymbol[method.FullName] = file;
                }
            }
            foreach (var message in file.MessageTypes)
            {
                Add(message);
            }
        }
    }

    public async IAsyncEnumerable<ServerReflectionResponse> InfoAsync(IAsyncEnumerable<ServerReflectionRequest> requests)
    {
        await foreach (var request in requests)
        {
            var response = Answer(request);
            response.ValidHost = request.Host;
            response.OriginalRequest = request;
            yield return response;
        }
    }

    private ServerReflectionResponse Answer(ServerReflectionRequest request)
    {
        switch (request.MessageRequestCase)
        {
            case ServerReflectionRequest.MessageRequestOneofCase.FileByFilename:
                return File(Array.Find(files, file => file.Name == request.FileByFilename), request.FileByFilename);
            case ServerReflectionRequest.MessageRequestOneofCase.FileContainingSymbol:
                return File(bySymbol.GetValueOrDefault(request.FileContainingSymbol), request.FileContainingSymbol);
            case ServerReflectionRequest.MessageRequestOneofCase.ListServices:
                var services = files.SelectMany(file => file.Services).Select(service => new ServiceResponse { Name = service.FullName });
                return new ServerReflectionResponse { ListServicesResponse = new ListServiceResponse { Service = { services } } };
            case ServerReflectionRequest.MessageRequestOneofCase.AllExtensionNumbersOfType when bySymbol.ContainsKey(request.AllExtensionNumbersOfType):
                return new ServerReflectionResponse
                {
                    AllExtensionNumbersResponse = new ExtensionNumberResponse { BaseTypeName = request.AllExtensionNumbersOfType },
                };
            case ServerReflectionRequest.MessageRequestOneofCase.AllExtensionNumbersOfType:
                return NotFound(request.AllExtensionNumbersOfType);
            case ServerReflectionRequest.MessageRequestOneofCase.FileContainingExtension:
                return NotFound($"extension {request.FileContainingExtension.ExtensionNumber} of {request.FileContainingExtension.ContainingType}");
            default:
                return Error(StatusCode.Unimplemented, "the request asks for nothing that is known");
        }
    }

    private static ServerReflectionResponse File(FileDescriptor? file, string name) => file is null
        ? NotFound(name)
        : new ServerReflectionResponse
        {
            FileDescriptorResponse = new FileDescriptorResponse { FileDescriptorProto = { file.SerializedData } },
        };

    private static ServerReflectionResponse NotFound(string name) => Error(StatusCode.NotFound, $"not found: {name}");

    private static ServerReflectionResponse Error(uint code, string message) =>
        new() { ErrorResponse = new ErrorResponse { ErrorCode = (int)code, ErrorMessage = message } };

    private void Add(MessageDescriptor message)
    {
        bySymbol[message.FullName] = message.File;
        foreach (var field in message.Fields.InDeclarationOrder())
        {
            bySymbol[field.FullName] = message.File;
        }
        foreach (var nested in message.NestedTypes)
        {
            Add(nested);
        }
        foreach (var nested in message.EnumTypes)
        {
            bySymbol[nested.FullName] = message.File;
        }
    }
}
