#include "echo_service.h"

#include <grpc/grpc.h>

#include <chrono>

#include "delay.h"

// The C++ library does not tell a server how a call is compressed. The core
// does, by functions that it has for its tests: the call's encoding, those that
// the caller accepts (a bit each), and the flags of the message read last.
grpc_compression_algorithm grpc_call_test_only_get_compression_algorithm(grpc_call* call);
uint32_t grpc_call_test_only_get_encodings_accepted_by_peer(grpc_call* call);
uint32_t grpc_call_test_only_get_message_flags(grpc_call* call);

namespace dyno::echo {
namespace {

using grpc::CallbackServerContext;
using grpc::Status;
using grpc::StatusCode;
using v1::CollectResponse;
using v1::EchoRequest;
using v1::EchoResponse;
using v1::ExpandRequest;

// The core's flag of a message that is still compressed as it was sent.
constexpr uint32_t kCompressed = 0x80000000u;

constexpr char kInitial[] = "x-grpc-test-echo-initial";
constexpr char kTrailing[] = "x-grpc-test-echo-trailing-bin";

std::string String(grpc::string_ref ref) { return {ref.data(), ref.size()}; }

// Begins a call: metadata that comes back, and compression of the answer if the
// question was compressed.
void Begin(CallbackServerContext* context) {
  const auto& metadata = context->client_metadata();
  for (auto [at, end] = metadata.equal_range(kInitial); at != end; ++at) {
    context->AddInitialMetadata(kInitial, String(at->second));
  }
  for (auto [at, end] = metadata.equal_range(kTrailing); at != end; ++at) {
    context->AddTrailingMetadata(kTrailing, String(at->second));
  }
  grpc_call* call = context->c_call();
  if (grpc_call_test_only_get_compression_algorithm(call) == GRPC_COMPRESS_GZIP &&
      (grpc_call_test_only_get_encodings_accepted_by_peer(call) >> GRPC_COMPRESS_GZIP & 1) != 0) {
    context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
  }
}

// The status that the message read last ends its call with.
Status StatusOf(CallbackServerContext* context, const EchoRequest& request) {
  if ((grpc_call_test_only_get_message_flags(context->c_call()) & kCompressed) != 0) {
    // An encoding that is not known is no encoding to the core.
    return {StatusCode::UNIMPLEMENTED, "the message's compression is not known; gzip is"};
  }
  if (request.status() == 0) return Status::OK;
  return {static_cast<StatusCode>(request.status()), request.text()};
}

// What a reactor has that waits. When the call is cancelled or its deadline has
// passed, the library has ended it already: what Finish gives is not sent.
class Waiter {
 protected:
  explicit Waiter(CallbackServerContext* context) : context_(context) {}

  // Waits as the message says, then calls next with the call's status: OK if it
  // goes on.
  template <typename Next>
  void Await(const EchoRequest& request, Next next) {
    if (request.delay_ms() == 0) {
      next(StatusOf(context_, request));
      return;
    }
    delay_.Start(std::chrono::milliseconds(request.delay_ms()), [this, &request, next](bool passed) {
      next(passed ? StatusOf(context_, request) : Status::CANCELLED);
    });
  }

  Delay delay_;

 private:
  CallbackServerContext* const context_;
};

class LateEcho final : public grpc::ServerUnaryReactor, Waiter {
 public:
  LateEcho(CallbackServerContext* context, const EchoRequest* request, EchoResponse* response) : Waiter(context) {
    Await(*request, [=](const Status& status) {
      response->set_text(request->text());
      response->set_payload(request->payload());
      Finish(status);
    });
  }

  void OnCancel() override { delay_.Cancel(); }
  void OnDone() override { delete this; }
};

class Collector final : public grpc::ServerReadReactor<EchoRequest>, Waiter {
 public:
  Collector(CallbackServerContext* context, CollectResponse* response) : Waiter(context), response_(response) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(Status::OK);
      return;
    }
    Await(request_, [this](const Status& status) {
      if (!status.ok()) {
        Finish(status);
        return;
      }
      response_->set_messages(response_->messages() + 1);
      response_->set_bytes(response_->bytes() + request_.text().size() + request_.payload().size());
      StartRead(&request_);
    });
  }

  void OnCancel() override { delay_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  EchoRequest request_;
  CollectResponse* response_;
};

class Expansion final : public grpc::ServerWriteReactor<EchoResponse>, Waiter {
 public:
  Expansion(CallbackServerContext* context, const ExpandRequest* request)
      : Waiter(context), interval_(request->interval_us()), left_(request->count()) {
    response_.set_text(request->message().text());
    response_.set_payload(request->message().payload());
    Await(request->message(), [this](const Status& status) {
      if (status.ok() && left_ > 0) {
        StartWrite(&response_);
      } else {
        Finish(status);
      }
    });
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      Finish(Status::CANCELLED);
    } else if (--left_ == 0) {
      Finish(Status::OK);
    } else if (interval_.count() == 0) {
      StartWrite(&response_);
    } else {
      delay_.Start(interval_, [this](bool passed) {
        if (passed) {
          StartWrite(&response_);
        } else {
          Finish(Status::CANCELLED);
        }
      });
    }
  }

  void OnCancel() override { delay_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  EchoResponse response_;
  const std::chrono::microseconds interval_;
  uint32_t left_;
};

class Conversation final : public grpc::ServerBidiReactor<EchoRequest, EchoResponse>, Waiter {
 public:
  explicit Conversation(CallbackServerContext* context) : Waiter(context) { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(Status::OK);
      return;
    }
    Await(request_, [this](const Status& status) {
      if (!status.ok()) {
        Finish(status);
        return;
      }
      response_.mutable_text()->swap(*request_.mutable_text());
      response_.mutable_payload()->swap(*request_.mutable_payload());
      StartWrite(&response_);
    });
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      StartRead(&request_);
    } else {
      Finish(Status::CANCELLED);
    }
  }

  void OnCancel() override { delay_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  EchoRequest request_;
  EchoResponse response_;
};

}  // namespace

grpc::ServerUnaryReactor* EchoService::Echo(CallbackServerContext* context, const EchoRequest* request,
                                            EchoResponse* response) {
  Begin(context);
  if (request->delay_ms() > 0) return new LateEcho(context, request, response);
  response->set_text(request->text());
  response->set_payload(request->payload());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(StatusOf(context, *request));
  return reactor;
}

grpc::ServerReadReactor<EchoRequest>* EchoService::Collect(CallbackServerContext* context, CollectResponse* response) {
  Begin(context);
  return new Collector(context, response);
}

grpc::ServerWriteReactor<EchoResponse>* EchoService::Expand(CallbackServerContext* context,
                                                            const ExpandRequest* request) {
  Begin(context);
  return new Expansion(context, request);
}

grpc::ServerBidiReactor<EchoRequest, EchoResponse>* EchoService::Chat(CallbackServerContext* context) {
  Begin(context);
  return new Conversation(context);
}

}  // namespace dyno::echo
