// The gRPC echo on gRPC's C++ library, with its callback API.

#include <google/protobuf/stubs/logging.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <vector>

#include "counting_interceptor.h"
#include "echo_service.h"
#include "options.h"
#include "reflection_service.h"

namespace {

// How long calls may go on after SIGTERM, before they are cut.
constexpr std::chrono::seconds kDrain(3);

int Run(const dyno::echo::Options& options) {
  // All threads of the library inherit this: the signals go to sigwait.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  const std::string name = dyno::echo::v1::Echo::service_full_name();
  dyno::echo::EchoService echo;
  dyno::echo::ReflectionService reflection({name, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"});

  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(options.max_message());
  builder.RegisterService(&echo);
  builder.RegisterService(&reflection);
  if (options.middleware > 0) {
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> layers;
    for (int i = 0; i < options.middleware; i++) {
      layers.push_back(std::make_unique<dyno::echo::CountingInterceptorFactory>());
    }
    builder.experimental().SetInterceptorCreators(std::move(layers));
  }
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    std::cerr << "listen: " << options.listen << ": the address cannot be had" << std::endl;
    return 1;
  }
  server->GetHealthCheckService()->SetServingStatus(name, true);
  std::cout << "listening on " << options.listen.substr(0, options.listen.rfind(':')) << ":" << port << std::endl;

  int signal = 0;
  sigwait(&signals, &signal);
  server->Shutdown(std::chrono::system_clock::now() + kDrain);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const dyno::echo::Options options = dyno::echo::Options::Parse(argc, argv);
    if (options.help) {
      std::cout << dyno::echo::Options::Usage();
      return 0;
    }
    // The core logs what clients do wrong by default. So does
    // what decodes messages.
    setenv("GRPC_VERBOSITY", "NONE", 0);
    google::protobuf::SetLogHandler(nullptr);
    return Run(options);
  } catch (const dyno::echo::WrongOption& wrong) {
    std::cerr << wrong.what() << std::endl;
    return 2;
  }
}
