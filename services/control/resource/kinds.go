package resource

// A Kind is a kind of resource.
type Kind string

// The kinds.
const (
	Policies  Kind = "policy"
	Configs   Kind = "config"
	Instances Kind = "instance"
	Sessions  Kind = "session"
	Locks     Kind = "lock"
	Counters  Kind = "counter"

	// These are in no namespace of users, and no client watches them.
	Principals Kind = "principal"
	Roles      Kind = "role"
)

// Traits are what distinguishes the resources of a kind.
type Traits struct {
	Kind   Kind
	Plural string // for people
	Area   string // a label of requests' metrics: discovery and changes of policies have different problems
	Folder string // in the API's addresses; of instances, that of services
	// History says that earlier versions are kept. Written says that people write it; programs register all others.
	History, Written bool
	// Slashes says that its names may have them.
	Slashes bool
	// Leased says that etcd removes it when its session ends. Backups do not have it.
	Leased bool
	// Access says that it says who may do what. It is in the namespace Everywhere, where nothing else can be.
	Access bool
	// Needs are members of a client's document, which must have one of them.
	Needs    []string
	document func() Document
}

// A Document is what a resource is. It has the record of its last change.
type Document interface {
	Ref() Ref
	Stamp(Change)
	Changed() Change
}

// traits are those of all kinds.
var traits = []Traits{
	{Kind: Policies, Plural: "policies", Area: "policy", Folder: "/v1/policies", History: true, Written: true, document: func() Document { return new(Policy) }},
	{Kind: Configs, Plural: "configurations", Area: "configuration", Needs: []string{"content", "content_base64"}, Folder: "/v1/configs", History: true, Written: true, Slashes: true, document: func() Document { return new(Config) }},
	{Kind: Instances, Plural: "instances", Area: "discovery", Folder: "/v1/services", document: func() Document { return &Instance{Weight: DefaultWeight} }},
	{Kind: Sessions, Plural: "sessions", Area: "coordination", Folder: "/v1/sessions", Leased: true, document: func() Document { return new(Session) }},
	{Kind: Locks, Plural: "locks", Area: "coordination", Folder: "/v1/locks", Leased: true, Slashes: true, document: func() Document { return new(Lock) }},
	{Kind: Counters, Plural: "counters", Area: "coordination", Needs: []string{"value"}, Folder: "/v1/counters", Slashes: true, document: func() Document { return new(Counter) }},
	{Kind: Principals, Plural: "principals", Area: "administration", Folder: "/v1/principals", History: true, Written: true, Access: true, document: func() Document { return new(Principal) }},
	{Kind: Roles, Plural: "roles", Area: "administration", Folder: "/v1/roles", History: true, Written: true, Access: true, document: func() Document { return new(Role) }},
}

// Kinds are the kinds of resources in namespaces.
func Kinds() (kinds []Kind) {
	for i := range traits {
		if !traits[i].Access {
			kinds = append(kinds, traits[i].Kind)
		}
	}
	return kinds
}

// New returns a document of the kind with the defaults of fields that a client need not give; nil for an unknown kind.
func (k Kind) New() Document {
	if t := k.Traits(); t.document != nil {
		return t.document()
	}
	return nil
}

// NamesOf returns the fields of a document with its names; nil if it has no such field.
func NamesOf(doc Document) (namespace, name, id *string) {
	switch d := doc.(type) {
	case *Policy:
		return &d.Namespace, &d.Name, nil
	case *Config:
		return &d.Namespace, &d.Name, nil
	case *Counter:
		return &d.Namespace, &d.Name, nil
	case *Instance:
		return &d.Namespace, &d.Service, &d.ID
	case *Principal:
		return nil, &d.Name, nil
	case *Role:
		return nil, &d.Name, nil
	}
	return nil, nil, nil
}

// Known reports whether a kind is one of Kinds.
func (k Kind) Known() bool { return k.Traits().Kind == k && !k.OfAccess() }

// OfAccess reports whether resources of a kind say who may do what.
func (k Kind) OfAccess() bool { return k.Traits().Access }

// Traits returns the kind's traits; they are empty for an unknown one.
func (k Kind) Traits() *Traits {
	for i := range traits {
		if traits[i].Kind == k {
			return &traits[i]
		}
	}
	return &Traits{Kind: "?"}
}

// KindNames lists Kinds for people.
func KindNames() string {
	var words []string
	for _, k := range Kinds() {
		words = append(words, string(k))
	}
	return alternatives(words)
}
