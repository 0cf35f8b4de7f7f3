#ifndef DYNO_ECHO_DELAY_H_
#define DYNO_ECHO_DELAY_H_

#include <grpcpp/alarm.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

namespace dyno::echo {

// The waits of one call, one after the other. They are good to a millisecond,
// as the library's timers are.
class Delay {
 public:
  // Calls then(true) after the duration, or then(false) when Cancel ends the
  // wait. It is called by a reactor's constructor or reactions, so that the
  // reactor is still there when it returns.
  void Start(std::chrono::microseconds duration, std::function<void(bool)> then) {
    std::unique_lock lock(mutex_);
    if (cancelled_) {
      lock.unlock();
      then(false);
      return;
    }
    alarm_ = std::make_unique<grpc::Alarm>();
    alarm_->Set(std::chrono::system_clock::now() + duration, std::move(then));
  }

  // Ends the wait under way, and those that are still to come.
  void Cancel() {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (alarm_) alarm_->Cancel();
  }

 private:
  std::mutex mutex_;
  bool cancelled_ = false;              // guarded by mutex_
  std::unique_ptr<grpc::Alarm> alarm_;  // guarded by mutex_
};

}  // namespace dyno::echo

#endif  // DYNO_ECHO_DELAY_H_
