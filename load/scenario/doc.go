// Package scenario is what users of a service do: log in once, then step after step,
// with data of their own, with what earlier responses said, with pauses. It makes
// requests and judges responses; it knows neither sockets nor clocks.
//
// Compile checks a Spec as a whole and makes a Scenario of it, which is immutable and
// shared. Each worker of an engine makes a Worker of the scenario, with its shard of the
// users and of the data, and users of that. A User is a state machine:
//
//	Next                  the next request, to be encoded and sent; or the end
//	Response | Failed     what became of it
//
// Once their buffers have grown to the size of what goes through them, users and workers
// do not allocate.
//
// # Flows
//
// A user goes through one flow of steps. Those that are marked Once come first, in their
// order; if one of them fails, the user begins again with the first, so that whatever they
// set has a value behind them. The others are repeated, in their order or, when they have
// weights, each time one of them drawn by its weight. One turn is an iteration. A step
// that fails ends its iteration if a later step uses what it should have set; otherwise
// the user goes on with the next one. Which flow a user takes is decided by the weights of
// the flows and the user's number.
//
// # Templates
//
// Paths, header values and bodies are templates: text in which {{ }} holds one expression.
// An expression is a variable, a string in single or double quotes (a backslash stands
// before a quote or a backslash), or a function of expressions:
//
//	name                        a variable: given from the start, extracted, or a column of data
//	users.name                  the column of one of several feeds that have it
//	column("any name")          a variable whose name is no word
//	counter()                   0, 1, 2 …, each number once among all users of all shards
//	counter("orders")           another such sequence
//	uuid(), uuid7()             a random and a time-ordered UUID (RFC 9562, versions 4 and 7)
//	random_int(1, 100)          a whole number from the first to the second, both included
//	random_string(8)            letters and digits
//	random_string(8, "abc")     characters of the second
//	random_choice(a, "b", …)    one of them
//	path_entropy(4)             so many random bytes in hexadecimal digits, to get past caches
//	timestamp("ms")             Unix time in s (default), ms, us or ns, or rfc3339 (UTC, milliseconds)
//	base64(a, …), base64url(a, …)  what the arguments say together, encoded (RFC 4648, with padding; without)
//	urlencode(a, …)             percent-encoded but for letters, digits, - . _ and ~ (RFC 3986)
//	json_escape(a, …)           as it stands between the quotes of a JSON string
//
// Nothing is encoded unless a function says so. A path or header value that would break its
// message is not sent: the request fails with kind generator.
//
// What is random depends on the seed, the user's number and what the user has drawn
// before. Two runs with one seed use the same values, UUIDs included: give each run a
// seed of its own where that must not be.
//
// # Responses
//
// A step judges the response in this order: status, then its assertions on header and body,
// then its extractions. What fails an assertion, or an extraction that must find
// something, is of kind assertion. Without a list of accepted statuses those below 400
// are, and another is of kind status.
package scenario
