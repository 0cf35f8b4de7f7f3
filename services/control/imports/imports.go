// Package imports makes resources of what Consul and Nacos export. It is pure. What the control plane cannot have is listed with
// the reason.
package imports

import (
	"fmt"

	"dyno/services/control/resource"
)

// A Resource is a *resource.Config, *resource.Policy or *resource.Instance.
type Resource interface {
	Ref() resource.Ref
	Check(resource.Limits) error
}

// An Entry is an exported entry, with the resource that was made of it, or why it was left out.
type Entry struct {
	Where string // what it is in the file
	Resource
	Why string
}

// An Import collects what is read from files. Resources go to its namespace. Instances have its TTL in seconds, or its checks, which
// then say whether they are healthy.
type Import struct {
	Namespace string
	TTL       float64
	Checks    []resource.Check
	Entries   []Entry
	mesh      map[string]*mesh // configuration entries of Consul, by service
}

func (i *Import) leave(where, format string, args ...any) {
	i.Entries = append(i.Entries, Entry{Where: where, Why: fmt.Sprintf(format, args...)})
}

// add adds a resource if it is valid. The server knows how large it may be.
func (i *Import) add(where string, one Resource) {
	limits := resource.DefaultLimits()
	limits.ConfigBytes = MaxTotal
	if err := one.Check(limits); err != nil {
		i.leave(where, "%v", err)
		return
	}
	i.Entries = append(i.Entries, Entry{Where: where, Resource: one})
}
