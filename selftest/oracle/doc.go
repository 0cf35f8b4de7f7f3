// Package oracle holds servers with a known answer. An instrument is checked
// against them as a scale is against weights: the right reading is known
// beforehand, or stated by the server for every single request.
//
//	StartNull    answers at once, as cheaply as possible: the ceiling of a generator
//	StartDelay   answers each request a drawn time after its arrival
//	StartQueue   c workers with one queue: M/M/1, or a capacity of c/s
//	StartFreeze  stops altogether for H in every P
//	StartFaulty  resets, cuts, stalls, misframes …, and counts exactly what it did
//	StartStream  sends numbered events to its subscribers, with planned faults
//	StartBreaking relays to a healthy server, and breaks at a set time: hangs, refuses …
//	StartWork    computes for each request, and is slower by an exactly known share
//
// Pure functions next to them say what a correct instrument reads: FreezeQuantile, MM1Quantile,
// MM1Sampling, Capacity, SlowRatio, and each Distribution's Quantile. A Tap is a referee that is
// neither server nor instrument: it reads the kernel's own time stamps of the packets.
//
// # How they keep time
//
// Each server is one loop on one locked thread: epoll, a timerfd, no goroutine per connection. Go's own
// timers are not good enough to be a reference, since the runtime's poller rounds waits to a
// millisecond. Nor are the time limits of poll and epoll. The kernel may stretch them by a thousandth
// of the wait (select_estimate_accuracy, 100 µs in 100 ms); a timerfd has no such slack. Then the time
// to wake a thread remains. Config.Spin removes it by polling through the last stretch, at the price of
// a CPU.
//
// Arrival means: the request's last byte has been read. No server can know what happened before, in the
// kernel or on the wire; the answer is never early by this clock, and how late it was is on record.
//
// # Limits
//
// Servers listen on loopback only. They speak HTTP/1.1 as far as a load
// generator needs it: any method and path, heads up to 64 KiB, bodies with a
// Content-Length, which are read and discarded; chunked request bodies are
// refused. The null server can speak TCP, too: it echoes bytes. A connection
// carries one request at a time: what is pipelined after it waits, and arrives
// when its predecessor has been answered. A client that shuts down its sending
// side is taken to have left.
package oracle
