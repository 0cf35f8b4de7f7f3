// What the command line says.

export const usage = `The gRPC echo, on grpc-js.

  --listen HOST:PORT    address to listen on; port 0 takes a free one (default 127.0.0.1:9000)
  --middleware N        layers around each call, each of which counts it (default 0)
  --max-message BYTES   longest payload of a message (default 4194304)
  --help                print this

NODE_OPTIONS holds options of Node.js, such as --max-semi-space-size=64.`;

/** What a message has around its payload: tags, lengths, and a short text. */
const framing = 64;

/** An option is wrong; the message says which, and why. */
export class WrongOption extends Error {}

/**
 * Reads the arguments.
 *
 * @param {string[]} args
 * @returns {{listen: string, middleware: number, maxMessage: number} | null} null if help is asked for
 * @throws {WrongOption}
 */
export function parse(args) {
  const options = { listen: '127.0.0.1:9000', middleware: 0, maxMessage: (4 << 20) + framing };
  const known = {
    '--listen': (name, value) => {
      options.listen = address(value);
    },
    '--middleware': (name, value) => {
      options.middleware = number(name, value, 0, 1000);
    },
    '--max-message': (name, value) => {
      options.maxMessage = number(name, value, 0, 1 << 30) + framing;
    },
  };
  for (let i = 0; i < args.length; i++) {
    const [, name, value] = /^([^=]*)(?:=(.*))?$/s.exec(args[i]);
    if (name === '--help' || name === '-h') {
      return null;
    }
    if (!Object.hasOwn(known, name)) {
      throw new WrongOption(`${name}: no such option`);
    }
    if (value === undefined && ++i === args.length) {
      throw new WrongOption(`${name}: needs a value`);
    }
    known[name](name, value ?? args[i]);
  }
  return options;
}

function number(name, value, low, high) {
  const n = /^[0-9]+$/.test(value) ? Number(value) : NaN;
  if (!(n >= low && n <= high)) {
    throw new WrongOption(`${name}: "${value}": must be a whole number from ${low} to ${high}`);
  }
  return n;
}

function address(value) {
  const colon = value.lastIndexOf(':');
  if (colon <= 0) {
    throw new WrongOption(`--listen: "${value}": must be HOST:PORT`);
  }
  number('--listen', value.slice(colon + 1), 0, 65535);
  return value;
}
