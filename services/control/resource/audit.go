package resource

import "time"

// An Act is what was done to a resource.
type Act string

// What is done.
const (
	Created    Act = "create"
	Updated    Act = "update"
	Removed    Act = "remove"
	RolledBack Act = "rollback"
	Released   Act = "release"  // of a gray release: begun or changed
	Promoted   Act = "promote"  // for everybody
	Withdrawn  Act = "withdraw" // for nobody
	Registered Act = "register"
	Expired    Act = "expire" // an instance was silent for too long
)

// An Audit is a note of one change. Old and New are versions, whose content is in the
// history for as long as that goes back; an audit never has content, so it has no
// secrets.
type Audit struct {
	At   time.Time `json:"at"`
	Who  string    `json:"who"`
	From string    `json:"from"` // address of the client
	Act  Act       `json:"act"`
	Ref
	Old int64 `json:"old_version,omitempty"`
	New int64 `json:"new_version,omitempty"`
}
