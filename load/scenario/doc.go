// Package scenario is what users of a service do: log in once, then step after step,
// with data of their own, with what earlier responses said, with pauses. It makes
// requests and judges responses; it knows neither sockets nor clocks.
//
// Compile checks a Spec as a whole and makes a Scenario of it, which is immutable and shared. Each
// worker of an engine makes a Worker of the scenario, with its share of users and data. The Worker
// makes the users. A User is a state machine:
//
//	Next                  the next request, to be encoded and sent; or the end
//	Response | Failed     what became of it
//
// Users and workers do not allocate once their buffers have grown. The exception is 32 bytes in
// which package regexp says where a pattern was found.
//
// # The contract with an engine
//
// Before the load, once for a process: feed.Open each file, Compile the Spec. The Scenario
// says by numbers what will be asked for:
//
//	Steps        what figures are of, and how much of a response's body a step wants
//	Outlines     the requests without what varies, for the codec to encode ahead; it adds
//	             what is the connection's: Host or :authority, Content-Length, a User-Agent
//	HeaderNames  the header fields of responses that the codec is to keep
//	TrailerNames the same of metadata behind the messages of calls, by numbers behind those
//
// Then once for each worker of the process:
//
//	w := s.Worker(process.Sub(worker), seed)
//
// where process is the process's pace.Shard of the run and worker the worker's of the
// process. The seed is the same for all. The worker calls what follows from one goroutine.
//
// A user sends, waits, thinks and sends again: in a closed loop one for each place of the concurrency.
// It is no connection. It may send each request over another one, and one connection may carry requests
// of many users. An exchange belongs to a user. It has its own Request and Response, whose memory is
// used again.
//
//	u := w.User()
//	for {
//		ok, err := u.Next(now, &exchange.request)
//		switch {
//		case !ok:        // the user has come to its end: see below
//		case exchange.request.Idle: // the iteration is over: call Next for the next one
//		case err != nil: // not sent: count it as sent and failed with err.Kind, call u.Failed()
//		default:         // send outline request.Outline with request.Parts in it
//		}
//		// … the response is complete:        err := u.Response(now, &exchange.response)
//		// … or there is none that counts:    u.Failed()
//		// count the exchange for step request.Step; then wait for u.Pause(&exchange.request)
//	}
//
// Times are Unix times in nanoseconds. Only timestamps, UUIDs and the age of cookies use them. So one
// reading per turn of the worker's loop is enough.
//
// The request's bytes stay until Next is called again with the same Request: an engine may have to send
// it again because the server has not looked at it. That is a stream above the last one of a GOAWAY, or
// REFUSED_STREAM. Then it encodes the bytes again, and calls neither Failed nor Next in between.
//
// The engine keeps the response's fields of HeaderNames and, if the step WantsBody, the body's first
// MaxBody bytes. It need not copy bytes that arrived in one piece: Response keeps nothing, so that they
// may stand in the buffer that was received into. It decodes the body by the field Content-Encoding, to
// MaxBody bytes at most, which allocates.
//
// How an exchange ends, and with which wire.Kind it is counted:
//
//	Next says an error                      generator; the user goes on after Failed
//	no descriptor, port or memory           generator, and Failed
//	no connection, or a handshake failed    connect or tls, and Failed
//	no response in time                     timeout, and Failed
//	closed or reset before the end          reset, and Failed
//	bytes that break the protocol           protocol, and Failed
//	Response says nil                       a good response
//	Response says an error                  its Kind: status or assertion
//	the load has ended                      unfinished, and nothing more
//
// Next and Response return the same error pointers each time, a few for each step. So callers can count
// them by their address. Their Text names the step. With Response, the codec's own opinion of the
// status does not count: a step may accept a 404.
//
// A pause follows a failed exchange like any other. After a failed log-in it is longer, from 100 ms to
// 5 s after repeated failures, by the seed. In an open loop the arrivals say when the next log-in is.
//
// Where requests are calls (Calls), Status is the call's status. Body is the engine's form of the
// messages, such as JSON. The bytes that a step's Encode has made are sent.
//
// When Next says that the user has come to its end, w.Err has the error, if there is one: a file that
// has changed. Else there is no step left, or the user is Dry: there is no row in its worker's share of
// a feed that ends with its rows. A closed loop has one user less, and ends with the last; Restart
// makes of it the worker's next user instead, where users are to come and go. Further users take flows
// that no user has found dry. The worker is Dry when all flows are: no user is left to restart, and no
// arrival can be carried out.
//
// In an open loop an arrival is an iteration: it takes a user who is Between two of them, or a new one,
// up to the bound on users. It is over when the user is Between again, or a request is Idle. The
// intended start of the iteration's first request is the arrival's. That of each further one is the end
// of the exchange before it, and its Pause.
//
// When the load has ended, add up Worker.Misses of all workers by their place: how often an
// extraction found nothing, also where that is no failure.
//
// A User takes 200 bytes, and
//
//	24 bytes and its text, of up to 16 KiB (MaxValue), for each variable that changes and is used
//	72 bytes and its text, of up to 4 KiB, for each cookie, of which it keeps up to 50
//	the path of its last request, if it has cookies
//
// A Request takes 104 bytes, and 24 bytes and its text for each part.
//
// # Flows
//
// A user goes through one flow of steps. Those that are marked Once come first, in their order; if one
// of them fails, the user begins again with the first. So later steps have their values. The others are
// repeated in their order or, with weights, drawn each time by weight; or each time the one whose turn
// it is among all users (InTurn). One turn is an iteration. A step whose condition (If) does not hold
// is skipped. Next says that a request is Idle when the last steps of an iteration are. A step that
// fails ends its iteration if a later step uses what it should have set; otherwise the user goes on
// with the next one. The weights of the flows and the user's number decide which flow a user takes. A
// flow that needs a row of a feed that has ended is over: further users take the other ones, by their
// weights.
//
// # Setup and teardown
//
// What is done once in a run is a scenario of its own (Spec.OfPart), which an engine carries out with one user. The
// user's Extracted variables complete the Spec of all users (Spec.AfterSetup). Until then they are known to have values.
//
// # Texts that vary
//
// Paths, header values and bodies are templates, and a step may have a condition: package
// template has their language.
//
// A request whose path or header value would break the message is not sent: it fails with
// kind generator.
//
// Random values depend on the seed, the user's number and its earlier draws. Two runs with one seed use
// the same values, UUIDs included: give each run a seed of its own where that must not be.
//
// # Responses
//
// A step judges the response in this order: status, then its assertions on header and body, then its
// extractions. A failed assertion, or a failed extraction that must find something, has kind assertion.
// Without a list of accepted statuses, those below 400 are accepted; another has kind status.
package scenario
