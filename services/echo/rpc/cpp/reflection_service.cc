#include "reflection_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <unordered_set>

namespace dyno::echo {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::Status;
using grpc::StatusCode;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

void NotFound(const std::string& what, ServerReflectionResponse* response) {
  response->mutable_error_response()->set_error_code(StatusCode::NOT_FOUND);
  response->mutable_error_response()->set_error_message("not found: " + what);
}

// Adds a file, and after it what it imports, each once.
void AddFile(const FileDescriptor* file, std::unordered_set<std::string>* seen, ServerReflectionResponse* response) {
  if (!seen->insert(std::string(file->name())).second) return;
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  proto.SerializeToString(response->mutable_file_descriptor_response()->add_file_descriptor_proto());
  for (int i = 0; i < file->dependency_count(); i++) AddFile(file->dependency(i), seen, response);
}

void AnswerFile(const FileDescriptor* file, const std::string& what, ServerReflectionResponse* response) {
  if (file == nullptr) {
    NotFound(what, response);
    return;
  }
  std::unordered_set<std::string> seen;
  AddFile(file, &seen, response);
}

void Answer(const ServerReflectionRequest& request, const std::vector<std::string>& services,
            ServerReflectionResponse* response) {
  const DescriptorPool* pool = DescriptorPool::generated_pool();
  response->set_valid_host(request.host());
  *response->mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      AnswerFile(pool->FindFileByName(request.file_by_filename()), request.file_by_filename(), response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      AnswerFile(pool->FindFileContainingSymbol(request.file_containing_symbol()), request.file_containing_symbol(),
                 response);
      break;
    case ServerReflectionRequest::kFileContainingExtension: {
      const auto& extension = request.file_containing_extension();
      const Descriptor* type = pool->FindMessageTypeByName(extension.containing_type());
      const FieldDescriptor* field =
          type == nullptr ? nullptr : pool->FindExtensionByNumber(type, extension.extension_number());
      AnswerFile(field == nullptr ? nullptr : field->file(), extension.containing_type(), response);
      break;
    }
    case ServerReflectionRequest::kAllExtensionNumbersOfType: {
      const Descriptor* type = pool->FindMessageTypeByName(request.all_extension_numbers_of_type());
      if (type == nullptr) {
        NotFound(request.all_extension_numbers_of_type(), response);
        break;
      }
      auto* numbers = response->mutable_all_extension_numbers_response();
      numbers->set_base_type_name(request.all_extension_numbers_of_type());
      std::vector<const FieldDescriptor*> extensions;
      pool->FindAllExtensions(type, &extensions);
      for (const FieldDescriptor* extension : extensions) numbers->add_extension_number(extension->number());
      break;
    }
    case ServerReflectionRequest::kListServices:
      for (const std::string& name : services)
        response->mutable_list_services_response()->add_service()->set_name(name);
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      response->mutable_error_response()->set_error_code(StatusCode::INVALID_ARGUMENT);
      response->mutable_error_response()->set_error_message("the request asks for nothing");
      break;
  }
}

class Conversation final : public grpc::ServerBidiReactor<ServerReflectionRequest, ServerReflectionResponse> {
 public:
  explicit Conversation(const std::vector<std::string>& services) : services_(services) { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(Status::OK);
      return;
    }
    response_.Clear();
    Answer(request_, services_, &response_);
    StartWrite(&response_);
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      StartRead(&request_);
    } else {
      Finish(Status::CANCELLED);
    }
  }

  void OnDone() override { delete this; }

 private:
  const std::vector<std::string>& services_;
  ServerReflectionRequest request_;
  ServerReflectionResponse response_;
};

}  // namespace

grpc::ServerBidiReactor<ServerReflectionRequest, ServerReflectionResponse>* ReflectionService::ServerReflectionInfo(
    grpc::CallbackServerContext*) {
  return new Conversation(services_);
}

}  // namespace dyno::echo
