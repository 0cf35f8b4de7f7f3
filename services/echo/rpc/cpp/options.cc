#include "options.h"

#include <charconv>
#include <string_view>

namespace dyno::echo {
namespace {

int Number(const std::string& name, const std::string& value, int low, int high) {
  int number = 0;
  const char* end = value.data() + value.size();
  auto [rest, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || rest != end || number < low || number > high) {
    throw WrongOption(name + ": \"" + value + "\": must be a whole number from " + std::to_string(low) + " to " +
                      std::to_string(high));
  }
  return number;
}

std::string Address(const std::string& value) {
  size_t colon = value.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    throw WrongOption("--listen: \"" + value + "\": must be HOST:PORT");
  }
  Number("--listen", value.substr(colon + 1), 0, 65535);
  return value;
}

}  // namespace

Options Options::Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i++) {
    std::string name = argv[i];
    std::string value;
    size_t equals = name.find('=');
    if (equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (name == "--help" || name == "-h") {
      options.help = true;
      return options;
    }
    if (name != "--listen" && name != "--middleware" && name != "--max-message") {
      throw WrongOption(name + ": no such option");
    }
    if (equals == std::string::npos) {
      if (++i == argc) throw WrongOption(name + ": needs a value");
      value = argv[i];
    }
    if (name == "--listen") {
      options.listen = Address(value);
    } else if (name == "--middleware") {
      options.middleware = Number(name, value, 0, 1000);
    } else {
      options.max_payload = Number(name, value, 0, 1 << 30);
    }
  }
  return options;
}

const char* Options::Usage() {
  return R"(The gRPC echo, on gRPC's C++ library with its callback API.

  --listen HOST:PORT    address to listen on; port 0 takes a free one (default 127.0.0.1:9000)
  --middleware N        layers around each call, each of which counts it (default 0)
  --max-message BYTES   longest payload of a message (default 4194304)
  --help                print this
)";
}

}  // namespace dyno::echo
