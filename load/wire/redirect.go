package wire

// A Follower tells which request follows a response that redirects. Clients are Composers then,
// and both they and muxes were prepared with its requests: the first of them is sent first, and in
// the others the target varies and nothing else. The only field that they deliver is the one that
// names where a response redirects to. A Follower is one worker's, for one goroutine at a time.
type Follower interface {
	// Follow judges a complete response with a status, to the request that the trail says. It tells
	// whether another request follows, which the trail says then. An error means that none can, and
	// that the exchange has failed. Errors have type *Error.
	Follow(t *Trail, status int) (follows bool, err error)
}

// A Trail is where redirects have led an exchange.
type Trail struct {
	Request   int    // the number of the request that was sent last, or is to be sent
	Target    []byte // its target; empty with request 0
	Location  []byte // where the response redirects to; empty if it names nothing
	Redirects int    // that were followed
}
