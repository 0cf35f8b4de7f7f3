// The part of k6 that a script sees: it records what an iteration would send, and sends nothing. Values of responses
// are not known; what a script does with one says where in the response it stands.
//
// __line, __leave, __mark, __open, __base64 and __csv are functions of Go, and __random is a number of its.
(function () {
	'use strict';

	const mostEvents = 2000;
	const events = [];
	const groups = [];
	const responses = new WeakMap(); // a response → its request
	const unknowns = new WeakSet();
	const bodies = new WeakMap(); // a response's content → its request
	const names = new Map(); // a request and a place in its response → the variable
	const tables = [];
	const missing = []; // variables of the environment
	let drawn = false; // a number at random, since the last row, request or pause

	function record(event) {
		if (events.length === mostEvents) {
			throw new Error('the iteration is longer than ' + mostEvents + ' requests and pauses');
		}
		drawn = false; // for a pause or a request, and not for a row
		events.push(Object.assign(event, {line: __line(), group: groups.join('-')}));
		return event;
	}

	// variableFor names a variable: two places have two, and none is that of a column.
	function variableFor(event, place, wanted) {
		const key = events.indexOf(event) + ' ' + place;
		if (!names.has(key)) {
			let name = wanted.replace(/[^0-9A-Za-z_]/g, '_').slice(0, 40);
			if (!/^[A-Za-z_]/.test(name)) {
				name = '_' + name;
			}
			const taken = new Set([...names.values(), ...tables.flatMap((t) => t.columns)]);
			let free = name;
			for (let n = 2; taken.has(free); n++) {
				free = name + '_' + n;
			}
			names.set(key, free);
		}
		return names.get(key);
	}

	function extract(event, part, place, wanted) {
		const variable = variableFor(event, part + place, wanted);
		if (!event.extract.some((e) => e.variable === variable)) {
			event.extract.push({variable, [part]: place});
		}
		return __mark(variable);
	}

	// unknown is a value that has members and items which are as little known.
	function unknown(mark, child) {
		const first = () => child('0');
		const methods = {
			toString: mark, valueOf: mark, toJSON: mark, trim: mark,
			forEach: (f) => void f(first(), 0),
			map: (f) => [f(first(), 0)],
			find: () => first(),
			some: () => true,
			every: () => true,
			filter: () => proxy,
			slice: () => proxy,
			includes: () => true,
			startsWith: () => true,
			endsWith: () => true,
			indexOf: () => 0,
		};
		const proxy = new Proxy({}, {
			get(_, name) {
				if (name === Symbol.toPrimitive) {
					return mark;
				}
				if (name === Symbol.iterator) {
					return function* () {
						yield first();
					};
				}
				if (typeof name === 'symbol') {
					return undefined;
				}
				return name === 'length' ? 1 : Object.hasOwn(methods, name) ? methods[name] : child(name);
			},
		});
		unknowns.add(proxy);
		return proxy;
	}

	function jsonAt(event, path) {
		const last = path.replace(/\[\d+\]$/, '').match(/[0-9A-Za-z_-]+(?=[^0-9A-Za-z_-]*$)/);
		return unknown(
			() => extract(event, 'json', path, last ? last[0] : 'content'),
			(name) => jsonAt(event, path + (/^\d+$/.test(name) ? '[' + name + ']' : /^[A-Za-z_]\w*$/.test(name) ? '.' + name : '["' + name + '"]')),
		);
	}

	function unsupported(what) {
		return () => {
			throw new Error(what + ' is not known to dyno');
		};
	}

	function responseTo(event) {
		const response = {
			status: 200, status_text: '200 OK', error: '', error_code: 0, url: event.url, proto: 'HTTP/1.1',
			timings: {duration: 1, blocked: 0, connecting: 0, tls_handshaking: 0, sending: 0, waiting: 1, receiving: 0},
			cookies: {}, request: {method: event.method, url: event.url, headers: {}, body: event.body},
			headers: new Proxy({}, {
				get: (_, name) => (typeof name === 'string' ? unknown(() => extract(event, 'header', name, name), () => undefined) : undefined),
			}),
			json: (path) => jsonAt(event, path === undefined ? '$' : '$.' + String(path).replace(/\.(\d+)(?=\.|$)/g, '[$1]')),
			html: unsupported('html()'), submitForm: unsupported('submitForm()'), clickLink: unsupported('clickLink()'),
		};
		response.body = unknown(() => extract(event, 'body', '', 'content'), () => undefined);
		bodies.set(response.body, event);
		responses.set(response, event);
		return response;
	}

	const parse = JSON.parse;
	JSON.parse = (text, reviver) => (bodies.has(text) ? jsonAt(bodies.get(text), '$') : parse(text, reviver));
	const draw = () => {
		drawn = true;
		return __random;
	};
	Math.random = draw;

	const leaveTag = (name) => __leave('tag ' + String(name), 'figures have no tags of their own', 'steps have names, which thresholds can refer to');
	const files = new WeakSet();
	const isFile = (v) => v !== null && typeof v === 'object' && files.has(v);
	const isBytes = (v) => v instanceof ArrayBuffer || ArrayBuffer.isView(v);
	const base64Of = (v) => __base64Bytes(v instanceof ArrayBuffer ? v : v.buffer.slice(v.byteOffset, v.byteOffset + v.byteLength));

	// inGo writes a value as k6, a program in Go, writes it into a form.
	function inGo(v) {
		if (v === null || v === undefined) {
			return '<nil>';
		}
		if (typeof v === 'number' && !Number.isInteger(v) && Math.abs(v) < 1e-4) {
			return v.toExponential().replace(/e-(\d)$/, 'e-0$1');
		}
		if (Array.isArray(v)) {
			return '[' + v.map(inGo).join(' ') + ']';
		}
		if (typeof v === 'object' && !unknowns.has(v)) {
			return 'map[' + Object.keys(v).sort().map((k) => k + ':' + inGo(v[k])).join(' ') + ']';
		}
		return String(v);
	}

	// inCookie writes the value of a cookie as Go does.
	function inCookie(v) {
		const text = String(v).replace(/[^\x20-\x7e\ue000\ue001]|[";\\]/g, '');
		return /[ ,]/.test(text) ? '"' + text + '"' : text;
	}

	function request(method, url, body, params) {
		const event = {kind: 'request', method: String(method), headers: [], checks: [], extract: []};
		if (url !== null && typeof url === 'object' && !unknowns.has(url)) {
			event.name = String(url.name);
			url = url.url;
		}
		event.url = String(url);
		if (Array.isArray(body) || typeof body === 'number' || typeof body === 'boolean') {
			__leave(event.method + ' ' + event.url, 'the request is not sent: k6 refuses a body that is no text, object or bytes', 'JSON.stringify makes a text of it');
			event.left = true;
			return responseTo(event);
		}
		record(event);
		for (const [key, value] of Object.entries(params || {})) {
			if (value === null || value === undefined) {
				continue;
			}
			switch (key) {
				case 'headers':
					for (const [name, text] of Object.entries(value)) {
						event.headers.push({name, value: String(text)});
					}
					break;
				case 'cookies':
					event.headers.push({name: 'Cookie', value: Object.entries(value).map(([n, v]) => n + '=' + inCookie(v !== null && typeof v === 'object' && !unknowns.has(v) ? v.value : v)).join('; ')});
					break;
				case 'tags':
					for (const [name, text] of Object.entries(value)) {
						if (name === 'name') {
							event.name = String(text);
						} else {
							leaveTag(name);
						}
					}
					break;
				case 'redirects':
					event.redirects = value;
					break;
				case 'responseType':
					break; // of no consequence for what is sent
				default:
					__leave('params.' + key, 'the experiment has no such setting for a request', key === 'timeout' ? 'load.timeout is for all' : '');
			}
		}
		const has = (name) => event.headers.some((h) => h.name.toLowerCase() === name);
		if (body === null || body === undefined) {
			return responseTo(event);
		}
		if (isBytes(body)) {
			event.base64 = base64Of(body);
		} else if (typeof body === 'object' && !unknowns.has(body)) {
			if (Object.values(body).some(isFile)) {
				event.parts = Object.entries(body).map(([name, v]) =>
					isFile(v) ? {name, isFile: true, file: v.filename, type: v.content_type, base64: isBytes(v.data) ? base64Of(v.data) : undefined, value: isBytes(v.data) ? undefined : String(v.data)} : {name, value: inGo(v)});
			} else {
				event.form = Object.keys(body).sort().flatMap((name) => (Array.isArray(body[name]) ? body[name] : [body[name]]).map((v) => ({name, value: inGo(v)})));
				if (event.form.length === 0) {
					event.body = '';
				}
				if (Object.values(body).flat().some(isFile)) {
					__leave('file in a list', 'k6 writes addresses of its memory in place of such a file', 'files are fields of their own');
				}
				if (!has('content-type')) {
					event.headers.push({name: 'Content-Type', value: 'application/x-www-form-urlencoded'});
				}
			}
		} else {
			event.body = String(body);
		}
		return responseTo(event);
	}

	const withBody = (method) => (url, body, params) => request(method, url, body, params);
	const http = {
		get: (url, params) => request('GET', url, null, params),
		head: (url, params) => request('HEAD', url, null, params),
		post: withBody('POST'), put: withBody('PUT'), patch: withBody('PATCH'), del: withBody('DELETE'), options: withBody('OPTIONS'),
		request, asyncRequest: async (...args) => request(...args),
		batch(requests) {
			__leave('batch', 'a user sends its requests one after the other', 'more users (load.closed.connections) send at the same time');
			const one = (r) => (Array.isArray(r) ? request(...r) : typeof r === 'string' ? request('GET', r) : request(r.method || 'GET', r.url, r.body, r.params));
			return Array.isArray(requests) ? requests.map(one) : Object.fromEntries(Object.entries(requests).map(([k, r]) => [k, one(r)]));
		},
		url: (strings, ...values) => ({
			url: strings.reduce((all, s, i) => all + s + (i < values.length ? values[i] : ''), ''),
			name: strings.join('x'),
		}),
		file(data, filename, type) {
			const file = {data, filename: filename === undefined ? __mark('timestamp("ns")') : String(filename), content_type: type === undefined ? 'application/octet-stream' : String(type)};
			files.add(file);
			return file;
		},
		expectedStatuses: () => __leave('expectedStatuses', 'which statuses are failures is a matter of each step', 'status of a step names the expected ones'),
		setResponseCallback: () => {},
		cookieJar: () => new http.CookieJar(),
		CookieJar: class {
			constructor() {
				__leave('cookieJar', 'cookies are kept, but a script cannot change them', 'give the step the header field Cookie');
			}
			set() {}
			clear() {}
			delete() {}
			cookiesForURL() {
				return {};
			}
		},
	};

	class SharedArray {
		constructor(name, make) {
			const rows = make();
			const columns = new Set(rows.flatMap((r) => (r !== null && typeof r === 'object' ? Object.keys(r) : [''])));
			const isTable = rows.length > 0 && columns.size > 0 && rows.every((r) => r !== null && typeof r === 'object' && !Array.isArray(r) && Object.keys(r).length === columns.size && Object.values(r).every((v) => ['string', 'number', 'boolean'].includes(typeof v)));
			const table = {name: String(name), line: __line(), columns: [...columns], rows, isTable, used: false, drawn: false};
			tables.push(table);
			const row = (at) => {
				const random = drawn;
				drawn = false;
				if (!__tables || !isTable || !(at in rows)) {
					table.used = true;
					table.drawn = table.drawn || random;
					return rows[at];
				}
				return new Proxy(rows[at], {
					get(of, column) {
						if (typeof column !== 'string' || !Object.hasOwn(of, column)) {
							return of[column];
						}
						table.used = true;
						table.drawn = table.drawn || random;
						return __column(table.name, column, typeof of[column] !== 'string');
					},
				});
			};
			return new Proxy(rows, {get: (of, at) => (typeof at === 'string' && /^\d+$/.test(at) ? row(at) : of[at])});
		}
	}

	const metric = (kind) => class {
		constructor(name) {
			__leave(kind + ' ' + name, 'metrics of a script are not recorded', 'dyno help metrics lists those that there are');
		}
		add() {}
	};

	function between(low, high) {
		return Math.floor(draw() * (high - low + 1)) + low;
	}

	globalThis.__ENV = new Proxy(__environment, {
		get(of, name) {
			const value = name in k6.environment ? k6.environment[name] : of[name];
			if (value === undefined && typeof name === 'string' && !missing.some((m) => m.name === name)) {
				missing.push({name, line: __line()});
			}
			return value;
		},
	});
	globalThis.crypto = {randomUUID: () => __mark('uuid()')};
	globalThis.open = __open;
	globalThis.console = {log() {}, info() {}, warn() {}, error() {}, debug() {}};
	const tagged = () => new Proxy({}, {
		set(_, name) {
			leaveTag(name);
			return true;
		},
	});
	const k6 = {
		events, tables, missing, http, SharedArray,
		environment: {}, // of the scenario
		check(value, tests, tags) {
			Object.keys(tags || {}).forEach(leaveTag);
			const event = responses.get(value);
			for (const [name, test] of Object.entries(tests || {})) {
				if (event === undefined || typeof test !== 'function') {
					__leave('check ' + name, 'it is not about a response', '');
				} else {
					event.checks.push({name, line: __line(), source: test.toString()});
				}
			}
			return true;
		},
		group(name, f) {
			groups.push(name);
			try {
				return f();
			} finally {
				groups.pop();
			}
		},
		sleep: (seconds) => void record({kind: 'pause', seconds: Number(seconds)}),
		fail(text) {
			throw new Error(text);
		},
		randomSeed() {},
		metrics: {Counter: metric('Counter'), Gauge: metric('Gauge'), Rate: metric('Rate'), Trend: metric('Trend')},
		encoding: {
			b64encode: (text) => __base64(String(text)),
			b64decode: unsupported('b64decode'),
		},
		execution: {
			vu: {idInTest: __VU, idInInstance: __VU, iterationInInstance: __ITER, iterationInScenario: __ITER, tags: tagged(), metrics: {tags: tagged(), metadata: tagged()}},
			scenario: {name: 'default', executor: '', startTime: 0, progress: 0, iterationInTest: __ITER, iterationInInstance: __ITER},
			instance: {vusActive: 1, vusInitialized: 1, iterationsCompleted: 0, iterationsInterrupted: 0, currentTestRunDuration: 0},
			test: {abort: unsupported('test.abort'), fail() {}, options: {}},
		},
		utils: {
			randomIntBetween: between,
			randomItem: (list) => list[Math.floor(draw() * list.length)],
			randomString: (n, characters) => __mark(characters ? 'random_string(' + n + ', ' + JSON.stringify(characters) + ')' : 'random_string(' + n + ')'),
			uuidv4: () => __mark('uuid()'),
			findBetween: unsupported('findBetween'),
			normalDistributionStages: unsupported('normalDistributionStages'),
			getCurrentStageIndex: () => 0, tagWithCurrentStageIndex() {}, tagWithCurrentStageProfile() {},
		},
		papaparse: {
			parse(text, options) {
				const rows = __csv(String(text), (options && options.delimiter) || ',');
				if (!options || !options.header) {
					return {data: rows, errors: [], meta: {}};
				}
				const names = rows.shift() || [];
				return {data: rows.map((r) => Object.fromEntries(names.map((n, i) => [n, r[i]]))), errors: [], meta: {fields: names}};
			},
		},
	};
	globalThis.__k6 = k6;
})();
