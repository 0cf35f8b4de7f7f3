package resource

import "time"

// A SessionInput is what a client says of a session.
type SessionInput struct {
	Name string `json:"name,omitempty" is:"text"` // for people, such as the program's
	TTL  int    `json:"ttl_seconds" range:"2..3600"`
}

// DefaultSessionTTL is in seconds.
const DefaultSessionTTL = 15

// A Session holds locks until TTL seconds after its last renewal. It is a lease of etcd, whose ID it has. It is for the
// principal that began it, By of its Change.
type Session struct {
	Namespace string `json:"namespace"`
	ID        string `json:"id"`
	SessionInput
	Change
}

// Ref names the session.
func (s *Session) Ref() Ref { return Ref{Kind: Sessions, Namespace: s.Namespace, Name: s.ID} }

// Check returns Invalid with every fault of what the client says.
func (s *SessionInput) Check() error { return checkInput(s) }

// A LockInput says for which session a lock is wanted, and with which value.
type LockInput struct {
	Session string  `json:"session" required:"yes" is:"name"`
	Value   string  `json:"value,omitempty" is:"text"`
	Wait    float64 `json:"wait_seconds,omitempty" range:"0..60"` // for another session to release it
}

// Check returns Invalid with every fault of what the client says.
func (l *LockInput) Check() error { return checkInput(l) }

func checkInput(doc any) error {
	var f faults
	checkTags(&f, "", doc)
	return f.err()
}

// A Lock is held by one session. It is removed when that releases it or ends.
type Lock struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Session   string `json:"session"`
	Holder    string `json:"holder,omitempty"` // the session's name
	Value     string `json:"value,omitempty"`
	// Token is the fencing token: it is larger than those of all acquisitions before. In the store's form of an acquisition
	// it lacks the revision.
	Token int64     `json:"token"`
	Since time.Time `json:"since"`
	Change
}

// Ref names the lock.
func (l *Lock) Ref() Ref { return Ref{Kind: Locks, Namespace: l.Namespace, Name: l.Name} }

// A Counter is a number that is changed by adding to it.
type Counter struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Value     int64  `json:"value"`
	Change
}

// Ref names the counter.
func (c *Counter) Ref() Ref { return Ref{Kind: Counters, Namespace: c.Namespace, Name: c.Name} }
