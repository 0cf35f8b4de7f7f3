// The four kinds of call.

import grpc from '@grpc/grpc-js';

const initialKey = 'x-grpc-test-echo-initial';
const trailingKey = 'x-grpc-test-echo-trailing-bin';

/** Answers a message. */
export function echo(call, callback) {
  const trailers = begin(call);
  settle(call, call.request, (error) => {
    if (error) {
      callback({ ...error, metadata: trailers });
    } else {
      callback(null, answer(call.request), trailers);
    }
  });
}

/** Counts the messages of a stream. */
export function collect(call, callback) {
  const trailers = begin(call);
  const sum = { messages: 0, bytes: 0 };
  inTurn(call, {
    take(request, done) {
      sum.messages++;
      sum.bytes += Buffer.byteLength(request.text) + request.payload.length;
      done();
    },
    fail: (error) => callback({ ...error, metadata: trailers }),
    end: () => callback(null, sum, trailers),
  });
}

/** Answers a message with many, no faster than the caller reads. */
export function expand(call) {
  const trailers = begin(call);
  const { message, count, interval_us: interval } = call.request;
  const request = message ?? { text: '', payload: Buffer.alloc(0), status: 0, delay_ms: 0 };
  const response = answer(request);
  let sent = 0;
  const send = () => {
    while (sent < count) {
      sent++;
      const more = call.write(response);
      if (sent < count && interval > 0) {
        delay(call, interval / 1000, send);
        return;
      }
      if (!more) {
        call.once('drain', send);
        return;
      }
    }
    call.end(trailers);
  };
  settle(call, request, (error) => {
    if (error) {
      call.emit('error', { ...error, metadata: trailers });
    } else {
      send();
    }
  });
}

/** Answers each message as it comes. */
export function chat(call) {
  const trailers = begin(call);
  inTurn(call, {
    take(request, done) {
      if (call.write(answer(request))) {
        done();
      } else {
        call.once('drain', done);
      }
    },
    fail: (error) => call.emit('error', { ...error, metadata: trailers }),
    end: () => call.end(trailers),
  });
}

/**
 * Takes the messages of a stream, each when the one before it is done. A message that asks for
 * a status fails the call, and is the last that is taken.
 */
function inTurn(call, { take, fail, end }) {
  let busy = false;
  let ended = false;
  const done = () => {
    busy = false;
    if (ended) {
      end();
    } else if (call.isPaused()) {
      call.resume();
    }
  };
  call.on('data', (request) => {
    busy = true;
    settle(call, request, (error) => {
      if (error) {
        fail(error);
      } else {
        take(request, done);
      }
    });
    if (busy) {
      call.pause();
    }
  });
  call.on('end', () => {
    ended = true;
    if (!busy) {
      end();
    }
  });
}

/** Fields that are not set are not encoded; empty ones would be. */
function answer({ text, payload }) {
  return {
    text: text === '' ? undefined : text,
    payload: payload.length === 0 ? undefined : payload,
  };
}

/** Sends back what the call brings for the header, and returns the trailers. */
function begin(call) {
  const initial = call.metadata.get(initialKey);
  if (initial.length > 0) {
    call.sendMetadata(metadata(initialKey, initial));
  }
  return metadata(trailingKey, call.metadata.get(trailingKey));
}

function metadata(key, values) {
  const metadata = new grpc.Metadata();
  for (const value of values) {
    metadata.add(key, value);
  }
  return metadata;
}

/**
 * Waits as a message says, and calls next with the status that the message asks for, if any.
 * It does not if the call ends meanwhile.
 */
function settle(call, request, next) {
  const then = () =>
    next(request.status === 0 ? null : { code: request.status, details: request.text });
  if (request.delay_ms === 0) {
    then();
  } else {
    delay(call, request.delay_ms, then);
  }
}

/**
 * Calls next after some milliseconds, unless the call is cancelled or its deadline passes.
 * Timers of Node.js count whole milliseconds, and may end within the last one.
 */
function delay(call, milliseconds, next) {
  const end = performance.now() + milliseconds;
  let timer;
  const stop = () => clearTimeout(timer);
  const check = () => {
    const left = end - performance.now();
    if (left > 0) {
      timer = setTimeout(check, Math.min(Math.ceil(left), 2 ** 31 - 1));
      return;
    }
    call.off('cancelled', stop);
    next();
  };
  if (!call.cancelled) {
    call.once('cancelled', stop);
    check();
  }
}
