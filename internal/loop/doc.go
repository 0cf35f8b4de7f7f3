// Package loop holds the common parts of the event loops of the hub and of the services: a readiness
// poller over epoll, and a slab of connection states that epoll's events refer to by key. Its socket
// calls never block, so they bypass the Go scheduler. The engine has a poller of its own: what measures
// shares no code with what is measured.
//
// A loop is one goroutine that owns a Poller and a Slab:
//
//	for {
//		n, err := poller.Wait(block)
//		for i := range n {
//			key, ready := poller.Event(i)
//			…
//		}
//	}
//
// Streams are registered once, edge-triggered, for all events (Stream), so that no message
// costs an epoll_ctl. In return, the loop must remember which sockets are readable and
// writable; see epoll(7), "Level-triggered and edge-triggered".
package loop
