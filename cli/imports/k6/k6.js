// The part of k6 that a script sees: it records what an iteration would send, and sends nothing. Values of responses
// are not known; what a script does with one says where in the response it stands.
//
// __line, __inLine, __leave, __mark, __number, __open, __base64, __compress, __hash and __csv are functions of Go, and __random is a number of its.
(function () {
	'use strict';

	const mostEvents = 2000;
	const events = [];
	let earlierEvents = 0; // before the iteration
	const groups = [];
	const responses = new WeakMap(); // a response → its request
	const unknowns = new WeakSet();
	const bodies = new WeakMap(); // a response's content → its request
	const places = new WeakMap(); // a value in a response → where it stands
	let names = new Map(); // a request and a place in its response → the variable
	let earlier = names; // those that a user's first iteration began with
	const timings = new WeakMap(); // a time of a response → its request, and which one it is
	const taken = []; // values of messages, which are awaited if anything sends them
	const metrics = [];
	let ownTags = {}; // of the user
	let lastStatus; // that a script has looked at
	let statuses; // that setResponseCallback expects
	const tables = [];
	const missing = []; // variables of the environment
	let drawn = false; // a number at random, since the last row, request or pause

	const mostTasks = 3000; // of a script
	const mostRepeats = 300; // of an interval
	const mostReplies = 200; // without a pause
	let tasks = []; // what happens later
	let made = 0; // tasks
	let clock = 0; // in milliseconds: it goes on while the script waits
	let paused = 0; // up to when pauses are recorded
	let replies = 0; // since the clock went on
	let reactions = 0; // requests, pauses and timers

	// later has something happen at a time from now. It belongs to a connection, or to the iteration.
	function later(owner, milliseconds, run, more) {
		if (made === mostTasks) {
			throw new Error('the script waits more than ' + mostTasks + ' times');
		}
		const task = Object.assign({owner, at: clock + Math.max(0, Number(milliseconds) || 0), id: ++made, order: made, run}, more);
		tasks.push(task);
		return task.id;
	}

	// timers are the functions by which a script, or what it does on a connection, waits.
	const timers = (owner) => ({
		setTimeout(f, milliseconds, ...args) {
			reactions++;
			return later(owner, milliseconds, () => f(...args));
		},
		setInterval(f, milliseconds, ...args) {
			reactions++;
			return later(owner, milliseconds, () => f(...args), {every: Math.max(1, Number(milliseconds) || 0), left: mostRepeats, line: __line()});
		},
		clearTimeout: (id) => void (tasks = tasks.filter((t) => t.id !== id)),
		clearInterval: (id) => void (tasks = tasks.filter((t) => t.id !== id)),
	});

	// turn does what is due next, and tells whether there was anything.
	function turn(owner) {
		const due = tasks.filter((t) => owner === undefined || t.owner === owner).reduce((a, b) => (a === undefined || b.at < a.at || b.at === a.at && b.order < a.order ? b : a), undefined);
		if (due === undefined) {
			return false;
		}
		tasks.splice(tasks.indexOf(due), 1);
		if (due.at > clock) {
			clock = due.at;
			replies = 0;
		}
		if (due.isReply && ++replies > mostReplies) {
			__leave('on message', 'each message is answered by another one, without an end: ' + mostReplies + ' are carried over', 'a scenario without the step that opens a connection repeats its steps on it', true);
			return true;
		}
		if (due.every && due.left === 0) {
			__leave('setInterval', 'it is carried over ' + mostRepeats + ' times', '', true);
			return true;
		}
		if (due.every) {
			tasks.push(Object.assign(due, {at: due.at + due.every, order: ++made, left: due.left - 1}));
		}
		due.run();
		return true;
	}

	// wait records the pause since the last request.
	function wait() {
		const since = paused;
		if (clock > since) {
			paused = clock;
			record({kind: 'pause', seconds: (clock - since) / 1000});
		}
	}

	function record(event) {
		wait();
		reactions++;
		if (events.length === earlierEvents + mostEvents) {
			throw new Error('the iteration is longer than ' + mostEvents + ' requests and pauses');
		}
		drawn = false; // for a pause or a request, and not for a row
		const tags = Object.fromEntries(Object.entries(Object.assign({}, k6.tags, ownTags, event.tags)).map(([name, v]) => [name, String(v)]));
		if (groups.length > 0) {
			tags.group = groups.map((g) => '::' + g).join('');
		}
		const text = taken.length > 0 ? JSON.stringify(event) : '';
		for (const t of taken) {
			t.event.awaited = t.event.awaited || text.includes(t.mark);
		}
		events.push(Object.assign(event, {id: events.length, line: __line(), column: __inLine(), group: groups.join('-'), tags}));
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

	function extract(event, part, place, wanted, pattern, group, more) {
		const variable = variableFor(event, part + place + (pattern || '') + (group || '') + JSON.stringify(more || ''), wanted);
		if (!event.extract.some((e) => e.variable === variable)) {
			event.extract.push(Object.assign({variable, [part]: place, pattern, group}, more));
			if (event.socket) {
				taken.push({event, mark: __mark(variable)});
			}
		}
		return more && more.as ? __number(variable) : __mark(variable);
	}

	// absent is a value that dyno does not know and cannot find: it has any member, which is such a value.
	const absent = new Proxy(function () {}, {
		get: (_, name) => (name === Symbol.toPrimitive ? () => '' : name === 'then' || typeof name === 'symbol' ? undefined : absent),
		apply: () => absent, construct: () => absent,
	});

	function time(event, part) {
		const value = new Number(part === 'duration' || part === 'waiting' ? 1 : 0); // an object, which is told from others
		timings.set(value, {event, part});
		unknowns.add(value);
		return value;
	}

	// unknown is a value that has members and items which are as little known.
	function unknown(mark, child, json = mark) {
		const first = () => child('0');
		const methods = {
			toString: mark, valueOf: mark, toJSON: json, trim: mark,
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

	// at notes where in which response a value stands, as checks write it.
	function at(event, text, value) {
		places.set(value, {event, text});
		return value;
	}

	function jsonAt(event, path) {
		const last = path.replace(/\[\d+\]$/, '').match(/[0-9A-Za-z_-]+(?=[^0-9A-Za-z_-]*$)/);
		const name = last ? last[0] : 'content';
		return at(event, 'R.json()' + path.slice(1), unknown(
			() => extract(event, 'json', path, name),
			(name) => jsonAt(event, path + (/^\d+$/.test(name) ? '[' + name + ']' : /^[A-Za-z_]\w*$/.test(name) ? '.' + name : '["' + name + '"]')),
			() => extract(event, 'json', path, name, undefined, undefined, {as: 'json'}),
		));
	}

	function unsupported(what) {
		return () => {
			throw new Error(what + ' is not known to dyno');
		};
	}

	function leaveHTML(what) {
		__leave(what, 'what is chosen from a page is not known', 'extract with a pattern finds a value in the content');
		return absent;
	}

	// page is what a script chooses from in the content of a response: the first element of a selector such as
	// input[name=csrf], whose attribute or text a pattern finds. Attributes begin with what is given, and are what follows.
	function page(event, start = '') {
		if (event === undefined) {
			return leaveHTML('parseHTML');
		}
		const find = (selector) => {
			const m = /^(\w*)(?:#([\w-]+)|\.([\w-]+)|\[([\w-]+)=["']?([^"'\]]+)["']?\])?$/.exec(selector);
			if (m === null) {
				return leaveHTML('find ' + selector);
			}
			const plain = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
			const has = m[2] ? '\\sid=["\']?' + plain(m[2]) + '\\b' : m[3] ? '\\sclass=["\'][^"\']*\\b' + plain(m[3]) + '\\b' : m[4] ? '\\s' + m[4] + '=["\']?' + plain(m[5]) + '["\'\\s>]' : '';
			const element = '(?i)<' + (m[1] || '\\w+') + '\\b[^>]*?' + has;
			const take = (pattern, wanted) => unknown(() => extract(event, 'body', '', wanted, element + pattern, 1), () => undefined);
			const selection = new Proxy({
				attr: (name) => take('(?:[^>]*?\\s)?' + name + '=["\']' + start + '([^"\']*)["\']', name),
				val: () => selection.attr('value'),
				text: () => take('[^>]*>([^<]*)<', 'text'),
				hidden: () => extract(event, 'body', '', 'hidden', '(?s)' + element + '.*?</form', 0, {decode: 'form'}),
				first: () => selection,
				eq: (n) => (n === 0 ? selection : leaveHTML('eq(' + n + ')')),
			}, {get: (of, name) => (Object.hasOwn(of, name) ? of[name] : typeof name === 'string' ? () => leaveHTML(name + '()') : undefined)});
			return selection;
		};
		__leave('elements of pages', 'patterns find them: the attribute of a selector must stand before the one that is taken', 'a pattern of your own in extract', true);
		return {find};
	}

	// bodyOf is the content of a response, in which patterns find values.
	function bodyOf(event) {
		const find = (pattern) => {
			const re = pattern instanceof RegExp ? pattern : new RegExp(String(pattern));
			const source = (re.ignoreCase ? '(?i)' : '') + (re.dotAll ? '(?s)' : '') + re.source;
			const groups = new RegExp(re.source + '|').exec('').length;
			return Array.from({length: groups}, (_, n) => extract(event, 'body', '', 'found', n === 0 ? '(' + source + ')' : source, n || 1));
		};
		const body = unknown(() => extract(event, 'body', '', 'content'), (name) => (name === 'match' ? find : undefined));
		bodies.set(body, event);
		return at(event, 'R.body', body);
	}

	function responseTo(event) {
		const root = event.url.replace(/^(\w+:\/\/[^/?#]*).*$/, '$1/');
		const response = {
			get status() {
				lastStatus = {event, text: 'R.status'};
				return 200;
			},
			status_text: '200 OK', error: '', error_code: 0, url: event.url, proto: 'HTTP/1.1',
			timings: Object.fromEntries(['duration', 'blocked', 'connecting', 'tls_handshaking', 'sending', 'waiting', 'receiving'].map((part) => [part, time(event, part)])),
			cookies: new Proxy({}, {
				get: (_, name) => (typeof name === 'string' ? [{name, value: unknown(() => extract(event, 'header', 'Set-Cookie', name, '(?:^|[^\\w-])' + name + '=([^;]*)', 1), () => undefined)}] : undefined),
			}),
			request: {method: event.method, url: event.url, headers: {}, body: event.body},
			headers: new Proxy({}, {
				get: (_, name) => (typeof name === 'string' ? at(event, 'R.headers["' + name + '"]', unknown(() => extract(event, 'header', name, name), () => undefined)) : undefined),
			}),
			json: (path) => jsonAt(event, path === undefined ? '$' : '$.' + String(path).replace(/\.(\d+)(?=\.|$)/g, '[$1]')),
			html: () => page(event),
			submitForm({formSelector = 'form', fields, submitSelector, params = {}} = {}) {
				const form = page(event, '/').find(formSelector);
				if (form === absent) {
					return response;
				}
				if (submitSelector) {
					leaveHTML('submitSelector ' + submitSelector);
				}
				__leave('submitForm()', 'it sends POST, with the hidden fields of the form and those that the script gives', 'fields that a form has filled in are fields of the script', true);
				const body = [form.hidden(), new Query(fields).toString()].filter(Boolean).join('&');
				return request('POST', root + form.attr('action'), body, Object.assign({}, params, {headers: Object.assign({'Content-Type': 'application/x-www-form-urlencoded'}, params.headers)}));
			},
			clickLink({selector = 'a[href]', params} = {}) {
				const href = page(event, '/').find(selector).attr('href');
				return href === absent ? response : request('GET', root + href, null, params);
			},
		};
		response.body = bodyOf(event);
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
	const now = Date.now;
	Date.now = () => {
		const mark = () => __number('timestamp("ms")');
		const value = Object.assign(new Number(now()), {[Symbol.toPrimitive]: (hint) => (hint === 'string' ? mark() : now()), toString: mark, toJSON: mark});
		unknowns.add(value);
		return value;
	};

	const readStatuses = (all) => all.map((s) => (typeof s === 'object' && s !== null ? (s.min || 100) + '-' + (s.max || 599) : String(s))).join(', ');
	const files = new WeakSet();
	const isFile = (v) => v !== null && typeof v === 'object' && files.has(v);
	const isBytes = (v) => v instanceof ArrayBuffer || ArrayBuffer.isView(v);
	const base64Of = (v) => __base64Bytes(v instanceof ArrayBuffer ? v : v.buffer.slice(v.byteOffset, v.byteOffset + v.byteLength));

	const hostOf = (url) => (/^\w+:\/\/(?:[^/?#]*@)?([^/?#]*)/.exec(url) || ['', ''])[1];

	// A CookieJar has the cookies that a script sets. Those of servers are not known.
	class CookieJar {
		constructor() {
			this.cookies = [];
		}
		set(url, name, value, options) {
			for (const key of Object.keys(options || {})) {
				if (!['domain', 'http_only', 'secure'].includes(key) && !(key === 'path' && options.path === '/')) {
					__leave('cookieJar().set: ' + key, 'cookies that a script sets are sent with all requests to the host', 'give the step the header field Cookie');
				}
			}
			this.cookies = this.cookies.filter((c) => c.host !== hostOf(url) || c.name !== name);
			this.cookies.push({host: hostOf(url), name: String(name), value});
			return true;
		}
		remove(what, keep) {
			__leave('cookieJar().' + what, 'users keep the cookies of the server', 'give the step the header field Cookie');
			this.cookies = this.cookies.filter(keep);
		}
		clear(url) {
			this.remove('clear', (c) => c.host !== hostOf(url));
		}
		delete(url, name) {
			this.remove('delete', (c) => c.host !== hostOf(url) || c.name !== name);
		}
		cookiesForURL(url) {
			return new Proxy({}, {get: (_, name) => this.cookies.filter((c) => c.host === hostOf(url) && c.name === name).map((c) => c.value)});
		}
	}
	const jar = new CookieJar(); // of the user

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

	// addCookies adds the cookies of a request, and those of a jar.
	function addCookies(event, own, kept) {
		const all = own.concat(kept.filter((c) => c.host === hostOf(event.url) && !own.some((o) => o.name === c.name && o.replace)));
		if (all.length > 0) {
			event.headers.push({name: 'Cookie', value: all.map((c) => c.name + '=' + inCookie(c.value)).join('; ')});
		}
	}

	function request(method, url, body, params) {
		const event = {kind: 'request', method: String(method), headers: [], checks: [], extract: [], tags: {}, statuses};
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
		Object.assign(event.tags, (params || {}).tags);
		record(event);
		let cookies = [];
		let kept = jar.cookies;
		let compression;
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
					cookies = Object.entries(value).map(([n, v]) => (v !== null && typeof v === 'object' && !unknowns.has(v) ? Object.assign({name: n}, v) : {name: n, value: v}));
					break;
				case 'jar':
					kept = value.cookies;
					break;
				case 'timeout':
					event.deadline = value;
					break;
				case 'tags':
					event.name = 'name' in value ? String(value.name) : event.name;
					break;
				case 'responseCallback':
					event.statuses = value.statuses;
					break;
				case 'redirects':
					event.redirects = value;
					break;
				case 'compression':
					compression = value;
					break;
				case 'responseType':
					break; // of no consequence for what is sent
				case 'auth':
					if (value !== 'basic') { // which the URL has, too
						__leave('params.auth', 'dyno does not answer a challenge (' + value + ')', 'give the step the header field Authorization');
					}
					break;
				default:
					__leave('params.' + key, 'the experiment has no such setting for a request', '');
			}
		}
		addCookies(event, cookies, kept);
		const has = (name) => event.headers.some((h) => h.name.toLowerCase() === name);
		if (body === null || body === undefined) {
			return responseTo(event);
		}
		if (isBytes(body)) {
			event.base64 = base64Of(body);
		} else if (typeof body === 'object' && !unknowns.has(body)) {
			if (body instanceof FormData || Object.values(body).some(isFile)) {
				event.headers = event.headers.filter((h) => !(body instanceof FormData && /^content-type$/i.test(h.name) && h.value === 'multipart/form-data; boundary=' + body.boundary));
				event.parts = (body.parts || Object.entries(body)).map(([name, v]) =>
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
		if (compression !== undefined) {
			const compressed = isBytes(body) || event.body === undefined ? '' : __compress(String(compression), event.body);
			if (compressed === '') {
				__leave('params.compression', 'only texts in which nothing varies are compressed, by gzip or deflate', '');
			} else {
				event.base64 = compressed;
				event.headers.push({name: 'Content-Encoding', value: compression});
			}
		}
		return responseTo(event);
	}

	// A call is a request of gRPC, with its messages.
	function call(client, method, messages, params) {
		const event = {kind: 'request', method: 'POST', call: String(method).replace(/^\//, ''), url: client.address, messages: messages.map((m) => JSON.stringify(m || {})), headers: [], checks: [], extract: [], tags: {}};
		for (const [key, value] of Object.entries(params || {})) {
			switch (key) {
				case 'metadata':
					for (const [name, text] of Object.entries(value)) {
						event.headers.push({name, value: isBytes(text) ? base64Of(text) : String(text)});
					}
					break;
				case 'tags':
					Object.assign(event.tags, value);
					event.name = 'name' in value ? String(value.name) : undefined;
					break;
				case 'timeout':
					event.deadline = value;
					break;
				case 'discardResponseMessage':
					break; // of no consequence for what is sent
				default:
					__leave('params.' + key, 'the experiment has no such setting for a call', '');
			}
		}
		record(event);
		const response = {
			status: 0, error: null, message: jsonAt(event, '$'),
			headers: new Proxy({}, {get: (_, name) => (typeof name === 'string' ? [unknown(() => extract(event, 'metadata', name, name), () => undefined)] : undefined)}),
			trailers: new Proxy({}, {get: (_, name) => (typeof name === 'string' ? [unknown(() => extract(event, 'trailer', name, name), () => undefined)] : undefined)}),
		};
		responses.set(response, event);
		return response;
	}

	class Client {
		load(folders, ...files) {
			k6.schemas.push({line: __line(), folders: folders || [], files});
		}
		loadProtoset(file) {
			k6.schemas.push({line: __line(), protoset: file});
		}
		connect(address, params) {
			const own = params || {};
			this.address = (own.plaintext ? 'http://' : 'https://') + address;
			for (const key of Object.keys(own)) {
				if (!['plaintext', 'reflect', 'timeout'].includes(key)) {
					__leave('connect: ' + key, 'the experiment has no such setting', 'target.tls and load.call have those of a connection');
				}
			}
			return true;
		}
		invoke(method, message, params) {
			return call(this, method, [message], params);
		}
		async asyncInvoke(...all) {
			return this.invoke(...all);
		}
		close() {}
	}

	// used returns the names by which a function knows its parameter and what it takes from that, but for what it logs.
	function used(f) {
		const source = String(f).replace(/console\.\w+\([^;\n]*\)/g, '');
		const m = /^(?:async\s*)?(?:function\b\s*\w*\s*)?\(?\s*\{?\s*([\w$]+)/.exec(source);
		const rest = m === null ? '' : source.slice(m[0].length);
		const has = (text, names) => text.split(/[^\w$]+/).some((word) => names.includes(word));
		if (m === null || !has(rest, [m[1]])) {
			return {isUsed: false};
		}
		const names = [m[1]];
		for (const d of rest.matchAll(/(?:const|let|var)\s+([\w$]+|\{[^}]*\})\s*=\s*([^;\n]*)/g)) {
			if (has(d[2], names)) {
				names.push(...d[1].match(/[\w$]+/g) || []);
			}
		}
		const conditions = rest.match(/\b(?:if|switch|while)\s*\([^{;\n]*|[^;{}\n]*\?[^.;{}\n]*/g) || [];
		return {isUsed: true, decides: conditions.some((c) => has(c, names))};
	}

	const unended = []; // streams and connections

	// A Stream is sent when it ends: all of its messages are known then.
	class Stream {
		constructor(client, method, params) {
			Object.assign(this, {client, method, params, messages: [], listeners: {}, begin: clock});
			unended.push(this);
		}
		on(event, f) {
			(this.listeners[event] = this.listeners[event] || []).push(f);
			if (event === 'data' && used(f).isUsed) {
				__leave('on data', 'what a script does with each message of a stream is not known', 'assert and extract look at all messages of a stream');
			}
		}
		fire(event) {
			later(this, 0, () => (this.listeners[event] || []).forEach((f) => f(absent)));
		}
		write(message) {
			this.messages.push(message);
			this.fire('data');
			return true;
		}
		end() {
			if (unended.includes(this)) {
				unended.splice(unended.indexOf(this), 1);
				if (clock > this.begin) {
					__leave('Stream ' + this.method, 'its messages are sent without the pauses between them', '');
				}
				call(this.client, this.method, this.messages, this.params);
				this.fire('end');
			}
		}
		abandon() {
			__leave('Stream ' + this.method, 'the script does not end it: the step does', '', true);
			unended.push(this);
			this.end();
		}
	}

	// A Connection is one of WebSocket, to a server that repeats what it is sent.
	class Connection {
		constructor(url, protocols, params) {
			if (unended.some((s) => s instanceof Connection)) {
				__leave('connection to ' + url, 'a user has one connection at a time: it closes the one before', 'more users have more connections');
			}
			const own = Object.assign({}, params);
			const event = this.exchange('open', {url: String(url).replace(/^ws/i, 'http'), protocols: [].concat(protocols || []), tags: Object.assign({}, own.tags)});
			for (const [name, value] of Object.entries(own.headers || {})) {
				if (/^sec-websocket-protocol$/i.test(name)) {
					event.protocols.push(...String(value).split(/\s*,\s*/));
				} else {
					event.headers.push({name, value: String(value)});
				}
			}
			event.compress = own.compression === 'deflate';
			event.name = 'name' in event.tags ? event.tags.name : undefined;
			addCookies(event, [], (own.jar || jar).cookies);
			Object.assign(this, {event, address: url, listeners: {}, isOpen: true});
			unended.push(this);
		}
		exchange(socket, more) {
			return record(Object.assign({kind: 'request', socket, method: '', url: '', headers: [], checks: [], extract: [], tags: {}}, more));
		}
		on(type, f) {
			(this.listeners[type] = this.listeners[type] || []).push(f);
			if (/message/i.test(type) && used(f).decides) {
				__leave('on ' + type, 'the script decides by the content of messages, which is not known', 'until, if and extract of steps look at messages');
			}
		}
		// fire has the functions for an event called. What they do after a message waits for it.
		fire(type, isMessage, reply) {
			later(this, 0, () => {
				const all = this.listeners[type] || [];
				if (!isMessage || all.length === 0) {
					return all.forEach((f) => f(this.said(type)));
				}
				let last = events.findLast((e) => ['send', 'open', 'listen'].includes(e.socket));
				if (last.socket === 'open') {
					last = this.exchange('listen');
				}
				const before = reactions;
				all.forEach((f) => f(this.said(type, bodyOf(last))));
				last.awaited = last.awaited || reactions > before;
				if (last.socket === 'listen' && !last.awaited) {
					events.pop();
				}
			}, {isReply: isMessage});
		}
		said(_, content) {
			return content;
		}
		send(content) {
			const isBinary = isBytes(content);
			if (!isBinary && String(content) === '') {
				__leave('send', 'an empty message is not sent', '');
				return;
			}
			this.exchange('send', isBinary ? {base64: base64Of(content)} : {body: String(content)});
			this.fire(isBinary ? this.binary || 'message' : 'message', true);
		}
		ping() {
			this.exchange('ping');
			this.fire('pong');
		}
		shut(code) {
			if (this.isOpen) {
				this.isOpen = false;
				this.exchange('close', {code});
				unended.splice(unended.indexOf(this), 1);
				tasks = tasks.filter((t) => t.owner !== this);
				this.fire('close');
			}
		}
		abandon() {
			if (this.listeners.message && !this.isGreeted && events.findLast((e) => e.socket).socket === 'open') { // the server begins
				this.isGreeted = true;
				__leave('connection to ' + this.address, 'a message that answers none may come before the step that waits for it, and is missed then', 'load.websocket.greetings is about messages that come first');
				unended.push(this);
				this.fire('message', true);
				return;
			}
			this.isOpen = false;
			__leave('connection to ' + this.address, 'the script waits until the server closes it, and users go on with the next iteration', 'await: close of a step waits for the server');
		}
	}

	// Socket is what a function of k6/ws gets.
	class Socket extends Connection {
		constructor(url, params) {
			super(url, [], params);
			Object.assign(this, timers(this), {binary: 'binaryMessage'});
		}
		sendBinary(content) {
			this.send(content);
		}
		close(code) {
			this.shut(code || 1001);
		}
	}

	class WebSocket extends Connection {
		constructor(url, protocols, params) {
			super(url, protocols, params);
			this.url = String(url);
			this.readyState = 0;
			this.bufferedAmount = 0;
			for (const type of ['open', 'message', 'close', 'error', 'ping', 'pong']) {
				let own = null;
				Object.defineProperty(this, 'on' + type, {get: () => own, set(f) {
					this.listeners[type] = (this.listeners[type] || []).filter((other) => other !== own);
					own = f;
					if (typeof f === 'function') {
						this.on(type, f);
					}
				}});
			}
			later(this, 0, () => void (this.readyState = 1));
			this.fire('open');
		}
		addEventListener(type, f) {
			this.on(type, f);
		}
		said(type, data) {
			return {type, data, target: this};
		}
		send(content) {
			if (this.readyState !== 1) {
				throw new Error('the WebSocket is not open');
			}
			super.send(content);
		}
		close(code) {
			this.readyState = 3;
			this.shut(code || 1000);
		}
	}

	const ws = {
		connect(url, params, f) {
			const socket = new Socket(url, typeof params === 'function' ? {} : params);
			(typeof params === 'function' ? params : f)(socket);
			socket.fire('open');
			while (socket.isOpen) {
				if (!turn(socket)) {
					unended.splice(unended.indexOf(socket), 1);
					socket.abandon();
				}
			}
			while (turn(socket)); // what follows its end
			const response = {status: 101, url, headers: {}, body: '', error: ''};
			responses.set(response, socket.event);
			return response;
		},
	};

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
		expectedStatuses: (...all) => ({statuses: readStatuses(all)}),
		setResponseCallback: (callback) => void (statuses = callback ? callback.statuses : '100-599'),
		cookieJar: () => jar,
		CookieJar,
	};

	class SharedArray {
		constructor(name, make) {
			const items = make();
			const isTexts = items.length > 0 && items.every((v) => typeof v === 'string');
			const rows = isTexts ? items.map((value) => ({value})) : items;
			const columns = new Set(rows.flatMap((r) => (r !== null && typeof r === 'object' ? Object.keys(r) : [''])));
			const isTable = rows.length > 0 && columns.size > 0 && rows.every((r) => r !== null && typeof r === 'object' && !Array.isArray(r) && Object.keys(r).length === columns.size && Object.values(r).every((v) => ['string', 'number', 'boolean'].includes(typeof v)));
			const table = {name: String(name), line: __line(), columns: [...columns], rows, isTable, used: false, drawn: false};
			tables.push(table);
			const row = (at) => {
				if (__once) { // what is sent once has no rows of its own
					return rows[at];
				}
				const random = drawn;
				drawn = false;
				if (!__tables || !isTable || !(at in rows)) {
					table.used = true;
					table.drawn = table.drawn || random;
					return items[at];
				}
				const proxy = new Proxy(rows[at], {
					get(of, column) {
						if (typeof column !== 'string' || !Object.hasOwn(of, column)) {
							return of[column];
						}
						table.used = true;
						table.drawn = table.drawn || random;
						return __column(table.name, column, typeof of[column] !== 'string');
					},
				});
				return isTexts ? proxy.value : proxy;
			};
			// The numbers of users and iterations that only show where they stand have rows, too.
			return new Proxy(rows, {get: (of, at) => (typeof at === 'string' && /^\d+$/.test(at) ? row(__numbers && rows.length > 0 ? at % rows.length : at) : of[at])});
		}
	}

	const mostAdds = 1000;

	// A metric notes what is added to it: a time of a response, or a value next to the last request.
	const metric = (kind) => class {
		constructor(name) {
			this.name = name;
			this.adds = [];
			metrics.push({kind, name: String(name), line: __line(), adds: this.adds});
		}
		add(value) {
			const time = timings.get(value);
			const last = events.findLastIndex((e) => e.kind === 'request');
			if (this.adds.length < mostAdds) {
				this.adds.push({event: time ? time.event.id : last, time: time ? time.part : '', value: typeof value === 'boolean' || typeof value === 'number' ? value : null, line: __line()});
			}
		}
	};

	const hasher = (algorithm, key) => {
		let text = '';
		return {
			update: (more) => void (text += more),
			digest: (encoding) => __hash(algorithm, key, text, encoding),
		};
	};
	const algorithms = ['md5', 'sha1', 'sha256', 'sha384', 'sha512', 'sha512_224', 'sha512_256'];

	// Query is URLSearchParams, as far as scripts use it.
	class Query {
		constructor(init) {
			this.pairs = typeof init === 'string' ? init.replace(/^\?/, '').split('&').filter(Boolean).map((p) => p.split('=').map((v) => decodeURIComponent(v.replace(/\+/g, ' ')))) : Array.isArray(init) ? init.map((p) => [...p]) : Object.entries(init || {});
		}
		append(name, value) {
			this.pairs.push([String(name), String(value)]);
		}
		set(name, value) {
			this.delete(name);
			this.append(name, value);
		}
		delete(name) {
			this.pairs = this.pairs.filter((p) => p[0] !== name);
		}
		get(name) {
			const found = this.pairs.find((p) => p[0] === name);
			return found ? found[1] : null;
		}
		has(name) {
			return this.pairs.some((p) => p[0] === name);
		}
		toString() {
			return this.pairs.map((p) => p.map((v) => encodeURIComponent(v).replace(/%20/g, '+')).join('=')).join('&');
		}
	}

	// Address is URL.
	class Address {
		constructor(url, base) {
			const whole = /^[a-z][a-z0-9+.-]*:/i.test(url) ? String(url) : String(base).replace(/^(\w+:\/\/[^/]*).*$/, '$1') + url;
			const m = /^([a-z][a-z0-9+.-]*:)\/\/([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?$/i.exec(whole);
			if (m === null) {
				throw new TypeError('Invalid URL: ' + whole);
			}
			Object.assign(this, {protocol: m[1], host: m[2], pathname: m[3] || '/', hash: m[5] || '', searchParams: new Query(m[4] || '')});
			[this.hostname, this.port] = m[2].split(':');
			this.port = this.port || '';
		}
		get origin() {
			return this.protocol + '//' + this.host;
		}
		get search() {
			const query = this.searchParams.toString();
			return query && '?' + query;
		}
		get href() {
			return this.origin + this.pathname + this.search + this.hash;
		}
		toString() {
			return this.href;
		}
	}

	// Session is Httpx.
	class Session {
		constructor(options) {
			Object.assign(this, {baseURL: '', headers: {}, tags: {}}, options);
			for (const method of ['get', 'head', 'options', 'post', 'put', 'patch', 'del', 'delete']) {
				this[method] = (url, body, params) => this.request(method.replace('delete', 'del').replace('del', 'delete').toUpperCase(), url, body, params);
			}
		}
		request(method, url, body, params) {
			const own = Object.assign({}, params);
			own.headers = Object.assign({}, this.headers, own.headers);
			own.tags = Object.assign({}, this.tags, own.tags);
			return request(method, /^https?:/.test(url) ? url : this.baseURL + url, body, own);
		}
		setBaseUrl(url) {
			this.baseURL = url;
		}
		addHeader(name, value) {
			this.headers[name] = value;
		}
		addHeaders(all) {
			Object.assign(this.headers, all);
		}
		removeHeader(name) {
			delete this.headers[name];
		}
		clearHeaders() {
			this.headers = {};
		}
		addTag(name, value) {
			this.tags[name] = value;
		}
		addTags(all) {
			Object.assign(this.tags, all);
		}
	}

	// FormData keeps its parts, which become those of a request.
	class FormData {
		constructor() {
			Object.assign(this, {parts: [], boundary: '--DynoBoundary'});
		}
		append(name, value, filename) {
			const isPlain = value === null || typeof value !== 'object';
			this.parts.push([String(name), isPlain || isFile(value) ? value : http.file(isBytes(value) ? value : value.data, filename || value.filename, value.content_type)]);
		}
		body() {
			return this;
		}
	}

	const fillers = ['to', 'be', 'been', 'is', 'that', 'which', 'and', 'has', 'have', 'with', 'at', 'of', 'same', 'deep'];

	// expectation is what k6chaijs says of a value: a chain of words, of which some make checks of a response.
	function expectation(value, name) {
		const {event, text} = responses.has(value) ? {event: responses.get(value), text: 'R'} : places.get(value) || (value === 200 && lastStatus) || {};
		const condition = (word, v) => {
			const json = JSON.stringify(v);
			const equal = 'R === ' + json;
			const include = 'R.includes(' + json + ')';
			return {equal, equals: equal, eq: equal, eql: equal, include, includes: include, contain: include, contains: include, oneOf: json + '.includes(R)', below: 'R < ' + json, status: 'R.status === ' + json}[word];
		};
		const chain = new Proxy(function () {}, {get(_, word) {
			const add = (source) => {
				if (event === undefined || source === undefined) {
					__leave('expect ' + (name || String(word)), 'dyno does not understand it', 'assert and status of a step say what is expected');
				} else {
					event.awaited = true;
					event.checks.push({name: String(name || word), line: __line(), source: 'R => ' + source, text});
				}
				return chain;
			};
			return fillers.includes(word) ? chain : word === 'exist' ? add('R !== undefined') : (v) => add(condition(word, v));
		}});
		return chain;
	}

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
	Object.assign(globalThis, timers(null));
	const tagged = () => new Proxy({}, {
		get: (_, name) => ownTags[name],
		set(_, name, value) {
			ownTags[name] = String(value);
			return true;
		},
	});
	const k6 = {
		events, tables, missing, noted: metrics, http, SharedArray,
		environment: {}, tags: {}, // of the scenario
		check(value, tests) {
			const {event, text} = responses.has(value) ? {event: responses.get(value), text: 'R'} : places.get(value) || {};
			for (const [name, test] of Object.entries(tests || {})) {
				if (event === undefined || typeof test !== 'function') {
					__leave('check ' + name, 'it is not about a response', '');
				} else {
					event.awaited = true;
					event.checks.push({name, line: __line(), source: test.toString(), text});
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
		sleep(seconds) {
			record({kind: 'pause', seconds: Number(seconds)});
			paused = clock += Math.max(0, Number(seconds) * 1000 || 0);
		},
		begin(isAgain) {
			jar.cookies = [];
			[earlierEvents, made] = [events.length, 0];
			if (isAgain) { // values have the names that they had in the iteration before
				names = new Map(earlier);
			} else {
				earlier = new Map(names);
			}
		},
		turn() {
			if (turn()) {
				return true;
			}
			unended.splice(0).forEach((s) => s.abandon());
			wait();
			return tasks.length > 0;
		},
		fail(text) {
			throw new Error(text);
		},
		randomSeed() {},
		metrics: {Counter: metric('Counter'), Gauge: metric('Gauge'), Rate: metric('Rate'), Trend: metric('Trend')},
		encoding: {
			b64encode: (v, kind) => __base64(isBytes(v) ? v : String(v), kind || 'std'),
			b64decode: (text, kind, format) => __fromBase64(String(text), kind || 'std', format === 's'),
		},
		crypto: Object.assign({
			createHash: (algorithm) => hasher(algorithm),
			createHMAC: (algorithm, key) => hasher(algorithm, key),
			hmac: (algorithm, key, text, encoding) => __hash(algorithm, key, text, encoding),
			hexEncode: (v) => [...new Uint8Array(v)].map((b) => b.toString(16).padStart(2, '0')).join(''),
			randomBytes: (n) => new Uint8Array(n).fill(drawn ? 1 : Math.floor(draw() * 256)).buffer,
		}, Object.fromEntries(algorithms.map((a) => [a, (text, encoding) => __hash(a, undefined, text, encoding)]))),
		schemas: [], ws, websockets: {WebSocket}, timers: timers(null),
		grpc: Object.assign({Client, Stream}, Object.fromEntries(['OK', 'Canceled', 'Unknown', 'InvalidArgument', 'DeadlineExceeded', 'NotFound', 'AlreadyExists', 'PermissionDenied', 'ResourceExhausted',
			'FailedPrecondition', 'Aborted', 'OutOfRange', 'Unimplemented', 'Internal', 'Unavailable', 'DataLoss', 'Unauthenticated'].map((name, n) => ['Status' + name, n]))),
		html: {parseHTML: (content) => page(bodies.get(content))},
		url: {URL: Address, URLSearchParams: Query},
		formdata: {FormData},
		httpx: {Httpx: Session, Get: (url, _, params) => ['GET', url, null, params]},
		chai: {
			describe(name, f) {
				k6.group(name, f);
				return true;
			},
			expect: (value, name) => expectation(value, name),
			chai: {config: {}},
		},
		execution: {
			vu: {
				idInTest: __VU, idInInstance: __VU,
				get iterationInInstance() {
					return __ITER;
				},
				get iterationInScenario() {
					return __ITER;
				},
				tags: tagged(), metrics: {tags: tagged(), metadata: tagged()},
			},
			scenario: {
				get name() {
					return k6.tags.scenario;
				},
				get iterationInTest() {
					return __ITERATION;
				},
				get iterationInInstance() {
					return __ITERATION;
				},
				executor: '', startTime: 0, progress: 0,
			},
			instance: {vusActive: 1, vusInitialized: 1, iterationsCompleted: 0, iterationsInterrupted: 0, currentTestRunDuration: 0},
			test: {abort: unsupported('test.abort'), fail() {}, options: {}},
		},
		utils: {
			randomIntBetween: between,
			randomItem: (list) => list[Math.floor(draw() * list.length)],
			randomString: (n, characters) => __mark(characters ? 'random_string(' + n + ', ' + JSON.stringify(characters) + ')' : 'random_string(' + n + ')'),
			uuidv4: () => __mark('uuid()'),
			findBetween(content, left, right, repeat) {
				const plain = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
				if (bodies.has(content)) {
					const found = extract(bodies.get(content), 'body', '', 'between', '(?s)' + plain(left) + '(.*?)' + plain(right), 1);
					return repeat ? [found] : found;
				}
				const all = [...String(content).matchAll(new RegExp(plain(left) + '(.*?)' + plain(right), 'gs'))].map((m) => m[1]);
				return repeat ? all : all[0] || null;
			},
			// The users follow a bell curve from two standard deviations before its peak to two after it, which takes four
			// sixths of the time; they come before that, and leave after it.
			normalDistributionStages(most, seconds, count = 10) {
				const stages = [];
				for (let i = 0; i <= count; i++) {
					const x = 4 * i / count - 2;
					stages.push({duration: Math.ceil(i === 0 ? seconds / 6 : 4 * seconds / 6 / count) + 's', target: Math.round(most * Math.exp(-x * x / 2))});
				}
				return [...stages, {duration: Math.ceil(seconds / 6) + 's', target: 0}];
			},
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
