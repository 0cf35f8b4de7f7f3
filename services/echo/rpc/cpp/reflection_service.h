#ifndef DYNO_ECHO_REFLECTION_SERVICE_H_
#define DYNO_ECHO_REFLECTION_SERVICE_H_

#include <string>
#include <vector>

#include "reflection.grpc.pb.h"

namespace dyno::echo {

// grpc.reflection.v1. The library's plugin, in the version that Debian 12 has,
// knows v1alpha only.
class ReflectionService final : public grpc::reflection::v1::ServerReflection::CallbackService {
 public:
  explicit ReflectionService(std::vector<std::string> services) : services_(std::move(services)) {}

  grpc::ServerBidiReactor<grpc::reflection::v1::ServerReflectionRequest,
                          grpc::reflection::v1::ServerReflectionResponse>*
  ServerReflectionInfo(grpc::CallbackServerContext* context) override;

 private:
  const std::vector<std::string> services_;
};

}  // namespace dyno::echo

#endif  // DYNO_ECHO_REFLECTION_SERVICE_H_
