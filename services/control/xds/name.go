package xds

import (
	"fmt"
	"strings"

	"dyno/services/control/resource"
)

// A service is a service of the catalog.
type service struct{ namespace, name string }

// String returns the name of the service's resources.
func (s service) String() string { return s.name + "." + s.namespace }

// ref returns the service's reference in the ledger: that of an instance without an ID.
func (s service) ref() resource.Ref {
	return resource.Ref{Kind: resource.Instances, Namespace: s.namespace, Name: s.name}
}

// alias returns the second name of the service's listener; "" is none.
func (s service) alias() string {
	if s.namespace != resource.DefaultNamespace || strings.Contains(s.name, ".") {
		return ""
	}
	return s.name
}

// parse returns the service of a resource's name. Namespaces have no dots, so the last dot separates the two. Only
// listeners have aliases: people type their names.
func parse(k kind, name string) (service, bool) {
	s := service{namespace: resource.DefaultNamespace, name: name}
	dot := strings.LastIndexByte(name, '.')
	switch {
	case dot >= 0:
		s = service{namespace: name[dot+1:], name: name[:dot]}
	case k != listeners:
		return service{}, false
	}
	return s, s.check() == nil
}

// check returns why xDS cannot have the service: its name would be a part of hosts.
func (s service) check() error {
	if !resource.IsPlain(s.name) {
		return fmt.Errorf("service %.80q: over xDS, its name must have only A-Z, a-z, 0-9, -, _, . and :, and begin with a letter or digit", s.name)
	}
	return resource.Ref{Kind: resource.Policies, Namespace: s.namespace, Name: s.name}.Check()
}
