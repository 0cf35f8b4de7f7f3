#ifndef DYNO_ECHO_OPTIONS_H_
#define DYNO_ECHO_OPTIONS_H_

#include <stdexcept>
#include <string>

namespace dyno::echo {

// An option is wrong; the message says which, and why.
class WrongOption : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What the command line says.
struct Options {
  // HOST:PORT; port 0 takes a free one.
  std::string listen = "127.0.0.1:9000";
  // How many layers there are around each call.
  int middleware = 0;
  // The longest payload that is read, in bytes. A message may be a few bytes
  // longer: it has tags, lengths, and a short text.
  int max_payload = 4 << 20;
  bool help = false;

  // The longest message that is read, in encoded bytes.
  int max_message() const { return max_payload + 64; }

  // Throws WrongOption.
  static Options Parse(int argc, char** argv);
  static const char* Usage();
};

}  // namespace dyno::echo

#endif  // DYNO_ECHO_OPTIONS_H_
