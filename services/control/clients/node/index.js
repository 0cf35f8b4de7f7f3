// A client of dyno's control plane. Messages are those of control.proto, with names such as ttlSeconds. Every error
// of a server is grpc's ServiceError, with a code and details.
'use strict';

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

  // close closes the connections. Close registrations and watches before.
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

  constructor(client, query) { this.#client = client; this.#query = query; }

  // close ends the iteration.
  close() {
    this.#ended.abort();
    this.#stream?.cancel();
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
        this.#current = true;
        yield this.#snapshot();
      }
    } finally {
      stream.cancel();
    }
  }

  #take(m, filling) {
    const key = keyOf(m.resource.ref);
    if (!filling) this.#note(key, this.#resources.get(key));
    const into = filling ?? this.#resources;
    if (m.type === 'TYPE_PUT') into.set(key, m.resource);
    else into.delete(key);
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
    await this.#client.call('Remove', { ref: this.#ref }).catch((error) => {
      if (error.code !== status.NOT_FOUND) throw error;
    });
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

module.exports = { Client };
