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
// do not allocate, but for the 32 bytes in which package regexp says where a pattern was found.
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
// A user is one that sends, waits, thinks and sends again: in a closed loop one for each
// place of the concurrency. It is no connection. It may send each request over another
// one, and one connection may carry requests of many users. An exchange belongs to a user
// and has a Request and a Response of its own, whose memory is used again.
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
// Times are Unix times in nanoseconds. They go into timestamps, UUIDs and the age of cookies
// only, so that one reading for each turn of the worker's loop will do.
//
// The request's bytes stay until Next is called again with the same Request: an engine that
// has to send a request again, because the server has not looked at it (a stream above the
// last one of a GOAWAY, REFUSED_STREAM), encodes them again and calls neither Failed nor Next
// in between.
//
// Of the response the engine keeps the fields of HeaderNames and, if the step WantsBody, the
// body's first MaxBody bytes. What has arrived in one piece it need not copy: Response keeps
// nothing, so that they may stand in the buffer that was received into. It decodes the body by
// the field Content-Encoding, to MaxBody bytes at most, which allocates.
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
// The errors that Next and Response return are the same pointers each time, of which there
// are a few for each step, so that callers can count them by their address.
// Their Text names the step. With Response, the codec's own opinion of the status does not
// count: a step may accept a 404.
//
// A pause follows a failed exchange like any other. After a log-in that failed it is longer, from
// 100 ms on and up to 5 s after failures in a row, drawn with the seed. In an open loop the
// arrivals say when the next log-in is.
//
// Where requests are calls (Calls), a Response's Status is the call's, and its Body what the
// engine has made of the messages, such as JSON. What a step's Encode has made is what is sent.
//
// When Next says that the user has come to its end, w.Err tells why, if that is an error: a
// file that has changed. Else there is no step left, or the user is Dry: there is no row in
// its worker's share of a feed that ends with its rows. A closed loop has one user less, and
// ends with the last; Restart makes of it the worker's next user instead, where users are to
// come and go. Further users are of flows that no user has found dry. The worker is Dry when
// all flows are: there is nobody left to restart, and no arrival that anybody can carry out.
//
// In an open loop an arrival is an iteration: it takes a user who is Between two of them, or
// a new one, up to the bound on users, and is over when the user is Between again, or a request
// Idle. The
// intended start of the iteration's first request is the arrival's. That of each further one
// is the end of the exchange before it, and its Pause.
//
// When the load has ended, add up Worker.Misses of all workers by their place: how often an
// extraction found nothing, also where that is no failure.
//
// A User takes 176 bytes, and
//
//	24 bytes and its text, of up to 16 KiB (MaxValue), for each variable that changes and is used
//	72 bytes and its text, of up to 4 KiB, for each cookie, of which it keeps up to 50
//	the path of its last request, if it has cookies
//
// A Request takes 104 bytes, and 24 bytes and its text for each part.
//
// # Flows
//
// A user goes through one flow of steps. Those that are marked Once come first, in their
// order; if one of them fails, the user begins again with the first, so that whatever they
// set has a value behind them. The others are repeated, in their order or, when they have
// weights, each time one of them drawn by its weight; or each time the one whose turn it is
// among all users (InTurn). One turn is an iteration. A step whose
// condition (If) does not hold is skipped. Next says that a request is Idle when the last steps
// of an iteration are. A step that fails ends its iteration if a later step uses what it should have set; otherwise
// the user goes on with the next one. Which flow a user takes is decided by the weights of
// the flows and the user's number. A flow that needs a row of a feed that has ended is over:
// further users take the other ones, by their weights.
//
// # Texts that vary
//
// Paths, header values and bodies are templates, and a step may have a condition: package
// template has their language.
//
// A request whose path or header value would break the message is not sent: it fails with
// kind generator.
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
