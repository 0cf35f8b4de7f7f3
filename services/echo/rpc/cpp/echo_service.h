#ifndef DYNO_ECHO_ECHO_SERVICE_H_
#define DYNO_ECHO_ECHO_SERVICE_H_

#include "echo.grpc.pb.h"

namespace dyno::echo {

// The four kinds of call. No thread waits in them.
class EchoService final : public v1::Echo::CallbackService {
 public:
  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context, const v1::EchoRequest* request,
                                 v1::EchoResponse* response) override;
  grpc::ServerReadReactor<v1::EchoRequest>* Collect(grpc::CallbackServerContext* context,
                                                    v1::CollectResponse* response) override;
  grpc::ServerWriteReactor<v1::EchoResponse>* Expand(grpc::CallbackServerContext* context,
                                                     const v1::ExpandRequest* request) override;
  grpc::ServerBidiReactor<v1::EchoRequest, v1::EchoResponse>* Chat(grpc::CallbackServerContext* context) override;
};

}  // namespace dyno::echo

#endif  // DYNO_ECHO_ECHO_SERVICE_H_
