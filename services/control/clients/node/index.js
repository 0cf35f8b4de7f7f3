// A client of dyno's control plane. Messages are those of control.proto, with names such as ttlSeconds. Every error
// of a server is grpc's ServiceError, with a code and details.
'use strict';

const { randomUUID } = require('node:crypto');
const { EventEmitter, once } = require('node:events');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { isDeepStrictEqual } = require('node:util');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const requestTimeout = 10_000; // ms, of a call other than a watch
const minPause = 100; // ms after a failure; the pause doubles with each one, up to maxPause
const maxPause = 10_000;
const beatsPerLease = 3; // two may be lost
const defaultLease = 30; // seconds
const lockWait = requestTimeout / 2; // so that the server answers before the request's time is over

// A dead server is noticed by pings, and an answer may have a document of the largest size.
const options = {
  'grpc.keepalive_time_ms': 20_000, 'grpc.keepalive_timeout_ms': 10_000,
  'grpc.initial_reconnect_backoff_ms': 100, 'grpc.max_reconnect_backoff_ms': 1_000,
  'grpc.max_receive_message_length': 16 << 20,
};

const { Control } = grpc.loadPackageDefinition(loader.loadSync(path.join(__dirname, 'control.proto'), {
  longs: Number, enums: String, defaults: true, oneofs: true,
})).dyno.control.v1;

const { status } = grpc;
// The same request would be refused again, until an operator changes something.
const lasting = new Set([
  status.INVALID_ARGUMENT, status.UNAUTHENTICATED, status.PERMISSION_DENIED, status.NOT_FOUND, status.FAILED_PRECONDITION,
  status.OUT_OF_RANGE, status.UNIMPLEMENTED,
]);
// Another server may answer.
const elsewhere = new Set([status.UNAVAILABLE, status.DEADLINE_EXCEEDED]);

// held reports whether another session has a lock: the refusal has an ErrorInfo, encoded like this.
const held = (error) => error.metadata?.get('grpc-status-details-bin').some((text) => text.includes('\n\x04held\x12\x0cdyno.control'));

// A LostError says that a session has ended, and its locks with it.
class LostError extends Error {
  constructor(message) {
    super(message);
    this.name = 'LostError';
  }
}

// spread returns a random time from half of it to all, so that programs do not come back at once.
const spread = (ms) => ms * (0.5 + Math.random() / 2);

const kindOf = (kind) => 'KIND_' + kind.toUpperCase();
const keyOf = (ref) => [ref.kind, ref.namespace, ref.name, ref.id].join(' ');

// A Route chooses the next server, and the pause after a failure.
class Route {
  constructor(stubs) {
    this.stubs = stubs;
    this.at = Math.floor(Math.random() * stubs.length);
    this.good();
  }

  get stub() { return this.stubs[this.at]; }

  good() { this.pause = minPause; }

  failed(error) {
    this.at = (this.at + 1) % this.stubs.length;
    const pause = lasting.has(error?.code) ? maxPause : this.pause;
    this.pause = Math.min(2 * this.pause, maxPause);
    return spread(pause);
  }
}

class Client {
  // servers are such as '127.0.0.1:7101'. name and labels choose the program for gray releases.
  // credentials are grpc.credentials.createSsl(...); without them there is no TLS.
  constructor(servers, { namespace = 'default', name = '', labels = {}, token = '', credentials, log = console.warn } = {}) {
    if (!servers.length) throw new TypeError('servers: one must be given, such as 127.0.0.1:7101');
    Object.assign(this, { namespace, name, labels, log });
    this.metadata = new grpc.Metadata();
    if (token) this.metadata.set('authorization', 'Bearer ' + token);
    this.stubs = servers.map((server) =>
      Object.assign(new Control(server, credentials ?? grpc.credentials.createInsecure(), options), { server }));
  }

  // close closes the connections. Close registrations, watches and sessions before.
  close() { this.stubs.forEach((s) => s.close()); }

  // call calls an operation of control.proto, such as 'Put'. If a server cannot be reached, the next one is asked.
  async call(operation, request, timeout = requestTimeout) {
    const route = new Route(this.stubs);
    for (let left = this.stubs.length - 1; ; left--) {
      try {
        return await this.callOnce(route.stub, operation, request, timeout);
      } catch (error) {
        if (!elsewhere.has(error.code) || left === 0) throw error;
        route.failed(error);
      }
    }
  }

  callOnce(stub, operation, request, timeout = requestTimeout) {
    return new Promise((resolve, reject) => {
      stub[operation](request, this.metadata, { deadline: Date.now() + timeout }, (error, answer) => error ? reject(error) : resolve(answer));
    });
  }

  ref(kind, name, id = '') { return { kind: kindOf(kind), namespace: this.namespace, name, id }; }

  // config reads a configuration as it is now: a Resource. Unlike a watch it has secrets, and no gray release.
  async config(name) { return (await this.call('Get', { ref: this.ref('config', name) })).resource; }

  // watch watches the resources of some kinds (policy, config, instance): all of the namespace, or by name. That of an
  // instance is its service's.
  watch(kinds, names = []) {
    return new Watch(this, { namespace: this.namespace, kinds: kinds.map(kindOf), names, token: '', client: this.name, labels: this.labels });
  }

  // register registers an instance, and keeps it registered until the Registration is closed. It returns at once.
  register(instance, service, id) { return new Registration(this, this.ref('instance', service, id), instance); }

  // begin begins a session, which is renewed until it is closed or lost. Its name is for people. It is lost after
  // ttlSeconds (from 2 to 3600) without an answer to a renewal, or if the control plane has ended it.
  async begin(name, { ttlSeconds = 15 } = {}) {
    const ttl = ttlSeconds * 1000;
    let asked = performance.now();
    const { ref } = (await this.call('BeginSession', { namespace: this.namespace, session: { name, ttlSeconds } })).resource;
    if (performance.now() - asked > ttl / beatsPerLease) { // its time may be over before its first renewal
      asked = performance.now();
      await this.call('RenewSession', { ref });
    }
    return new Session(this, ref, ttl, asked);
  }

  // add adds to a counter, which begins with 0, and returns its value. It counts once, even if a server is asked again.
  async add(counter, number) {
    const conditions = { idempotencyKey: randomUUID() };
    return (await this.call('Add', { ref: this.ref('counter', counter), add: number, conditions })).resource.counter.value;
  }

  // remove removes a resource, which may have been removed already.
  async remove(ref, session = '') {
    await this.call('Remove', { ref, session }).catch((error) => {
      if (error.code !== status.NOT_FOUND) throw error;
    });
  }
}

// A Watch is an async iterable of snapshots. A program that takes them slowly misses intermediate states, and no change.
// A snapshot has
//   resources  a Map, which the next step changes
//   changes    since the snapshot before: {before, after} for each resource; one of them is undefined if it is new or removed
//   current    whether a server has said that this is complete, and is still heard; otherwise it is what was known last
//   server     which is watched
class Watch {
  #client; #query; #stream; #server;
  #resources = new Map();
  #changed = new Map(); // what was before, by key
  #current = false;
  #ended = new AbortController();
  #answers = new Map(); // the last acknowledgement of each resource, by key
  #unsent = new Map(); // those of them that are not sent yet

  constructor(client, query) { this.#client = client; this.#query = query; }

  // close ends the iteration.
  close() {
    this.#ended.abort();
    this.#stream?.cancel();
  }

  // applied says that the program runs a version. A newer answer replaces one that is not sent yet.
  applied(resource) { this.#answer({ ref: resource.ref, version: resource.version }); }

  // refused says that the program does not run a version, and why: it goes on with what it had.
  refused(resource, reason) { this.#answer({ ref: resource.ref, version: resource.version, refused: true, reason }); }

  #answer(ack) {
    const key = keyOf(ack.ref);
    // What is known bounds what waits. Without a name the program is in no rollout.
    if (!this.#client.name || !this.#resources.has(key) || this.#answers.get(key)?.version > ack.version) return;
    this.#answers.set(key, ack);
    this.#unsent.set(key, ack);
    this.#send();
  }

  #send() {
    if (!this.#current) return; // a server that does not know a version yet would end the stream
    for (const [key, ack] of this.#unsent) {
      if (!this.#stream?.writable || this.#stream.writableNeedDrain) return;
      this.#unsent.delete(key);
      this.#stream.write({ ack });
    }
  }

  // show returns a snapshot that is current. At the beginning of a stream, its server may not know the answers yet.
  #show() {
    if (!this.#current) {
      this.#current = true;
      for (const [key, ack] of this.#answers) {
        if (this.#resources.get(key)?.version !== ack.version) this.#answers.delete(key);
      }
      this.#unsent = new Map(this.#answers);
      this.#send();
    }
    return this.#snapshot();
  }

  async *[Symbol.asyncIterator]() {
    const route = new Route(this.#client.stubs);
    const { signal } = this.#ended;
    try {
      while (!signal.aborted) {
        let error;
        try {
          yield* this.#follow(route);
        } catch (e) {
          error = e;
        }
        if (signal.aborted) return;
        if (this.#current) {
          this.#current = false;
          yield this.#snapshot();
        }
        const pause = route.failed(error);
        this.#client.log(`not watching at ${this.#server}, again after ${Math.round(pause)} ms: ${error?.message ?? 'the stream has ended'}`);
        await sleep(pause, undefined, { signal }).catch(() => {});
      }
    } finally {
      this.close(); // the caller may have left the loop
    }
  }

  // follow reads one stream until it ends.
  async *#follow(route) {
    this.#server = route.stub.server;
    const stream = this.#stream = route.stub.Watch(this.#client.metadata);
    stream.on('drain', () => this.#send());
    stream.write({ query: this.#query });
    let filling; // during a full snapshot
    try {
      for await (const m of stream) {
        route.good();
        switch (m.type) {
          case 'TYPE_RESYNC':
            // What is known stays until the snapshot is complete. If the stream is cut before, it starts again.
            filling = new Map();
            this.#query.token = '';
            this.#current = false;
            break;
          case 'TYPE_PUT':
          case 'TYPE_REMOVE':
            this.#take(m, filling);
            break;
          case 'TYPE_SYNCED':
            if (filling) this.#replace(filling);
            filling = undefined;
        }
        if (filling) continue;
        if (m.token) this.#query.token = m.token;
        if (!m.token && m.type !== 'TYPE_SYNCED') continue;
        yield this.#show();
      }
    } finally {
      this.#stream = undefined;
      stream.cancel();
    }
  }

  #take(m, filling) {
    const key = keyOf(m.resource.ref);
    if (!filling) this.#note(key, this.#resources.get(key));
    const into = filling ?? this.#resources;
    if (m.type === 'TYPE_PUT') into.set(key, m.resource);
    else into.delete(key);
    if (!filling && !into.has(key)) {
      this.#answers.delete(key);
      this.#unsent.delete(key);
    }
  }

  #note(key, before) { if (!this.#changed.has(key)) this.#changed.set(key, before); }

  #replace(filling) {
    const before = this.#resources;
    this.#resources = filling;
    for (const key of new Set([...before.keys(), ...filling.keys()])) {
      if (!isDeepStrictEqual(before.get(key), filling.get(key))) this.#note(key, before.get(key));
    }
  }

  #snapshot() {
    const changes = [...this.#changed].map(([key, before]) => ({ before, after: this.#resources.get(key) }));
    this.#changed.clear();
    return { resources: this.#resources, changes, current: this.#current, server: this.#server };
  }
}

// A Registration keeps an instance registered until it is closed.
class Registration {
  #client; #ref; #instance; #error; #running;
  #known = false;
  #closed = new AbortController();
  #events = new EventEmitter(); // settled: the control plane knows the instance, or refuses it for good

  constructor(client, ref, instance) {
    this.#client = client;
    this.#ref = ref;
    this.#instance = instance;
    this.#running = this.#keep();
  }

  // ready waits until the control plane knows the instance. It throws the error if the instance is refused for good.
  async ready() {
    if (!this.#known && !this.#error) await once(this.#events, 'settled');
    if (this.#error) throw this.#error;
  }

  // close removes the instance. After an error it expires with its lease.
  async close() {
    this.#closed.abort();
    await this.#running;
    await this.#client.remove(this.#ref);
  }

  async #keep() {
    const route = new Route(this.#client.stubs);
    const { signal } = this.#closed;
    // A part of the lease bounds a heartbeat, so that another server can still be asked in time.
    const part = (this.#instance.ttlSeconds || defaultLease) * 1000 / beatsPerLease;
    while (!signal.aborted) {
      let pause = spread(part);
      try {
        if (this.#known) {
          const heard = await this.#client.callOnce(route.stub, 'Heartbeat', { instances: [this.#ref] }, part);
          this.#known = heard.unknown.length === 0;
        }
        if (!this.#known) {
          await this.#client.callOnce(route.stub, 'Register', { ref: this.#ref, instance: this.#instance });
          this.#settle(undefined);
        }
        route.good();
      } catch (error) {
        const failed = route.failed(error);
        pause = lasting.has(error.code) ? failed : Math.min(failed, pause);
        if (lasting.has(error.code) && !this.#known) this.#settle(error);
        this.#client.log(`no sign of life of ${this.#ref.name}/${this.#ref.id}, again after ${Math.round(pause)} ms: ${error.message}`);
      }
      await sleep(pause, undefined, { signal }).catch(() => {}); // it was closed
    }
  }

  #settle(error) {
    this.#known = !error;
    this.#error = error;
    this.#events.emit('settled');
  }
}

// A Session has locks. It is renewed until it is closed or lost.
//   lost  an AbortSignal: the session has ended without close, and its locks with it; its reason is a LostError
class Session {
  #client; #ref; #ttl; #running; #timer;
  #lost = new AbortController();
  #ended = new AbortController(); // lost or closed

  constructor(client, ref, ttl, asked) {
    this.#client = client;
    this.#ref = ref;
    this.#ttl = ttl;
    this.lost = this.#lost.signal;
    this.#renewed(asked);
    this.#running = this.#keep();
  }

  // check throws a LostError if the session is lost or closed.
  check() {
    this.lost.throwIfAborted();
    if (this.#ended.signal.aborted) throw new LostError('the session is closed');
  }

  // close ends the session, and releases its locks. After an error they are released after the session's time.
  async close() {
    this.#ended.abort();
    clearTimeout(this.#timer);
    await this.#running;
    if (!this.lost.aborted) await this.#client.remove(this.#ref);
  }

  // lock waits until the session has a lock, and returns it. After timeout milliseconds it throws an error with the code
  // ETIMEDOUT. The value is for who watches the lock: that of an elected leader is its address. After an error, the session may
  // have the lock or get it: call it again, or close the session.
  async lock(name, { value = '', timeout = Infinity } = {}) {
    const end = performance.now() + timeout;
    const left = () => Math.max(0, end - performance.now());
    const route = new Route(this.#client.stubs);
    const ref = this.#client.ref('lock', name);
    for (;;) {
      this.check();
      let pause = 0;
      try {
        const wait = Math.min(lockWait, left());
        const ask = { ref, session: this.#ref.name, value, waitSeconds: wait / 1000 };
        const { resource } = await this.#client.callOnce(route.stub, 'Acquire', ask, wait + lockWait);
        this.check();
        return new Lock(this, resource, () => this.#client.remove(ref, this.#ref.name));
      } catch (error) {
        if (error.code === status.NOT_FOUND) this.#lose('it has ended');
        else if (held(error)) route.good();
        else if (!Number.isInteger(error.code) || lasting.has(error.code)) throw error;
        else pause = route.failed(error);
      }
      if (left() === 0) throw Object.assign(new Error(`${name}: the lock is not free after ${timeout} ms`), { code: 'ETIMEDOUT' });
      await sleep(Math.min(pause, left()), undefined, { signal: this.#ended.signal }).catch(() => {});
    }
  }

  #lose(why) {
    if (this.#ended.signal.aborted) return;
    clearTimeout(this.#timer);
    this.#ended.abort();
    this.#client.log(`the session ${this.#ref.name} is lost: ${why}`);
    this.#lost.abort(new LostError('the session is lost: ' + why));
  }

  // renewed notes an answer to a request. The end is counted from before it, so this side ends first.
  #renewed(asked) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#lose(`no answer for ${this.#ttl} ms`), asked + this.#ttl - performance.now());
  }

  async #keep() {
    const route = new Route(this.#client.stubs);
    const part = this.#ttl / beatsPerLease;
    const { signal } = this.#ended;
    for (let pause = spread(part); ;) {
      await sleep(pause, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      const asked = performance.now();
      try {
        await this.#client.callOnce(route.stub, 'RenewSession', { ref: this.#ref }, part);
        if (signal.aborted) return;
        this.#renewed(asked);
        route.good();
        pause = spread(part);
      } catch (error) {
        if (error.code === status.NOT_FOUND) this.#lose('it has ended');
        if (signal.aborted) return;
        pause = Math.min(route.failed(error), part / this.#client.stubs.length); // each is asked in time
        this.#client.log(`the session ${this.#ref.name} is not renewed, again after ${Math.round(pause)} ms: ${error.message}`);
      }
    }
  }
}

// A Lock is one that a session has.
//   token  is larger than those of all who had the lock before: resources can refuse smaller ones
//   lost   an AbortSignal, as the session's
class Lock {
  #session; #remove;

  constructor(session, resource, remove) {
    this.#session = session;
    this.#remove = remove;
    this.token = resource.lock.token;
    this.lost = session.lost;
  }

  // check throws a LostError if the lock is lost with its session.
  check() { this.#session.check(); }

  // unlock releases the lock. One that is lost needs no release.
  async unlock() { if (!this.lost.aborted) await this.#remove(); }
}

module.exports = { Client, LostError };
