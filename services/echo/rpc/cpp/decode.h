#ifndef DYNO_ECHO_DECODE_H_
#define DYNO_ECHO_DECODE_H_

#include <grpcpp/impl/codegen/proto_utils.h>

#include "echo.pb.h"

// How requests are decoded. The library's callback API takes a message that
// cannot be decoded for a method that is not implemented, or for the end of a
// stream. Here it becomes a request for the status INTERNAL.

namespace dyno::echo {

inline void AskForInternal(v1::EchoRequest* request) {
  request->Clear();
  request->set_status(grpc::StatusCode::INTERNAL);
  request->set_text("the message cannot be decoded");
}

inline void AskForInternal(v1::ExpandRequest* request) {
  request->Clear();
  AskForInternal(request->mutable_message());
}

template <typename Request>
class RequestTraits {
 public:
  static grpc::Status Serialize(const Request& request, grpc::ByteBuffer* to, bool* own) {
    return grpc::GenericSerialize<grpc::ProtoBufferWriter, Request>(request, to, own);
  }

  static grpc::Status Deserialize(grpc::ByteBuffer* from, Request* request) {
    if (!grpc::GenericDeserialize<grpc::ProtoBufferReader, Request>(from, request).ok()) AskForInternal(request);
    return grpc::Status::OK;
  }
};

}  // namespace dyno::echo

namespace grpc {

template <>
class SerializationTraits<dyno::echo::v1::EchoRequest> : public dyno::echo::RequestTraits<dyno::echo::v1::EchoRequest> {
};

template <>
class SerializationTraits<dyno::echo::v1::ExpandRequest>
    : public dyno::echo::RequestTraits<dyno::echo::v1::ExpandRequest> {};

}  // namespace grpc

#endif  // DYNO_ECHO_DECODE_H_
