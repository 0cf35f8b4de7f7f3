#ifndef DYNO_ECHO_COUNTING_INTERCEPTOR_H_
#define DYNO_ECHO_COUNTING_INTERCEPTOR_H_

#include <grpcpp/support/server_interceptor.h>

#include <atomic>
#include <cstdint>

namespace dyno::echo {

// A layer around each call: it counts those that go through it.
class CountingInterceptorFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo*) override {
    return new Layer(&calls_);
  }

 private:
  class Layer final : public grpc::experimental::Interceptor {
   public:
    explicit Layer(std::atomic<uint64_t>* calls) : calls_(calls) {}

    void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
      if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
        calls_->fetch_add(1, std::memory_order_relaxed);
      }
      methods->Proceed();
    }

   private:
    std::atomic<uint64_t>* const calls_;
  };

  std::atomic<uint64_t> calls_{0};
};

}  // namespace dyno::echo

#endif  // DYNO_ECHO_COUNTING_INTERCEPTOR_H_
