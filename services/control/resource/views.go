package resource

import "time"

// An AckState is the state of a version at one client.
type AckState string

// The states.
const (
	Sent    AckState = "sent"    // not acknowledged
	Applied AckState = "applied" // ACK
	Refused AckState = "refused" // NACK: the client keeps its previous version
)

// An Ack is a client's acknowledgement.
type Ack struct {
	Ref
	Version int64    `json:"version"`
	State   AckState `json:"state"`            // applied or refused
	Reason  string   `json:"reason,omitempty"` // of a refusal
}

// A Holding is the state of one resource at one client.
type Holding struct {
	Client    string    `json:"client"`
	Connected bool      `json:"connected"`
	State     AckState  `json:"state"`
	Version   int64     `json:"version"`         // the version of State
	Running   int64     `json:"running_version"` // the newest applied version; 0 is unknown
	Reason    string    `json:"reason,omitempty"`
	At        time.Time `json:"at"`
}

// A Rollout counts which clients run which version of a resource. Clients of other replicas are in theirs.
type Rollout struct {
	Ref
	Version int64 `json:"version"` // the newest
	Clients int   `json:"clients"` // clients that were sent any version
	Applied int   `json:"applied"` // of these, clients that run the newest
	Refused int   `json:"refused"` // clients that have refused the newest
	Pending int   `json:"pending"` // clients that have not acknowledged the newest
	// Versions counts the clients that run each version; version 0 is unknown.
	Versions map[int64]int `json:"versions"`
	// Holdings lists some clients: first those that have refused, then those that are pending.
	Holdings []Holding `json:"holdings"`
	// Unrecorded counts the holdings of all resources that did not fit.
	Unrecorded uint64 `json:"unrecorded"`
}

// A Service is a service with instances.
type Service struct {
	Name      string `json:"name"`
	Instances int    `json:"instances"` // how many
}

// An InstanceView is an instance with its health by one replica.
type InstanceView struct {
	Instance
	Overdue bool     `json:"overdue"`
	Heard   *float64 `json:"heard_seconds,omitempty"` // how long ago
}
