package imports

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"dyno/services/control/resource"
)

// An export has fields of all forms that are read. Consul's documentation has them: "Consul KV Export" and, of the HTTP API, "KV
// Store", "Catalog", "Health" and "Service - Agent"; "Services configuration reference".
type export struct {
	Kind, Name, AccessorID                                       string
	Key                                                          *string
	Flags                                                        uint64
	Value                                                        []byte
	Node, Hash                                                   json.RawMessage // Node is its name, or an object
	Address, ServiceID, ServiceName, ServiceAddress, ServiceKind string
	ServicePort                                                  int
	ServiceTags                                                  []string
	ServiceMeta                                                  map[string]string
	ServiceWeights                                               *weights
	Service                                                      *instance
	Services                                                     []*instance
	Checks                                                       []struct{ Status string }
}

// An instance is one in the form of the agent, of health, or of a service definition.
type instance struct {
	ID, Name, Service, Kind, Address string
	Port                             int
	Tags                             []string
	Meta                             map[string]string
	Weights                          *weights
}

type weights struct{ Passing, Warning int }

// Consul reads a file that Consul's commands or API wrote, in JSON. The error says what is of no known form.
func (i *Import) Consul(text []byte) error {
	list := []json.RawMessage{text}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte{'['}) {
		if err := json.Unmarshal(text, &list); err != nil {
			return err
		}
	}
	for n, raw := range list {
		if err := i.consul(raw); err != nil {
			return fmt.Errorf("entry %d: %w", n+1, err)
		}
	}
	return nil
}

func (i *Import) consul(raw []byte) error {
	var e export
	err := json.Unmarshal(raw, &e)
	switch {
	case err == nil && e.Key != nil:
		one := &resource.Config{Namespace: i.Namespace, Name: *e.Key}
		one.SetData(string(e.Value))
		if e.Flags != 0 {
			one.Labels = map[string]string{"consul-flags": strconv.FormatUint(e.Flags, 10)}
		}
		i.add("key "+*e.Key, one)
	case err == nil && e.Kind != "":
		i.entry(e.Kind, e.Name, raw)
	case err == nil && (e.AccessorID != "" || e.Hash != nil): // only tokens have the former, and policies and roles the latter
		i.leave("ACL "+cmp.Or(e.Name, e.AccessorID), "is not carried over: principals take the place of tokens")
	case err == nil && (e.ServiceName != "" || e.Service != nil || len(e.Services) > 0):
		node := struct{ Node, Address string }{Address: e.Address}
		if json.Unmarshal(e.Node, &node.Node) != nil {
			_ = json.Unmarshal(e.Node, &node) // a service definition has none
		}
		if e.ServiceName != "" {
			e.Service = &instance{e.ServiceID, e.ServiceName, "", e.ServiceKind, e.ServiceAddress, e.ServicePort, e.ServiceTags, e.ServiceMeta, e.ServiceWeights}
		}
		for _, one := range append(e.Services, e.Service) {
			if one != nil {
				one.Address = cmp.Or(one.Address, node.Address)
				i.instance(node.Node, one, e.Checks)
			}
		}
	default:
		var agent map[string]instance
		if json.Unmarshal(raw, &agent) != nil || slices.ContainsFunc(slices.Collect(maps.Values(agent)), func(i instance) bool { return i.Service == "" }) {
			return errors.New("is of no known form: want JSON of consul kv export, consul config read, /v1/health/service/NAME, /v1/catalog/service/NAME, /v1/agent/services, or a service definition")
		}
		for _, id := range slices.Sorted(maps.Keys(agent)) {
			one := agent[id]
			i.instance("", &one, nil)
		}
	}
	return nil
}

// maxTag bounds the name of an entry of metadata, in bytes.
const maxTag = 128

// instance makes an instance. Consul's identifiers are unique on one node only. Its weight is 1 unless given, which is 100 here.
func (i *Import) instance(node string, s *instance, checks []struct{ Status string }) {
	name, weight, status := cmp.Or(s.Service, s.Name), cmp.Or(s.Weights, &weights{1, 1}), resource.Up
	share, metadata := weight.Passing, map[string]string{}
	id := strings.TrimPrefix(node+":"+cmp.Or(s.ID, name), ":")
	where := "service " + name + " " + id
	for _, check := range checks {
		switch {
		case check.Status == "critical" && len(i.Checks) == 0:
			status = resource.Down
		case check.Status == "warning":
			share = weight.Warning
		}
	}
	for _, tag := range s.Tags {
		if tag == "" || len(tag) > maxTag {
			i.leave(where+": tag "+tag, "must have 1 to %d bytes", maxTag)
			continue
		}
		metadata[tag] = ""
	}
	maps.Copy(metadata, s.Meta)
	switch {
	case s.Kind != "":
		i.leave(where, "is a %s: proxies take their configuration over xDS", s.Kind)
	case s.Address == "":
		i.leave(where, "has no address: that of its node is in /v1/health/service/%s", name)
	default:
		i.add(where, &resource.Instance{
			Namespace: i.Namespace, Service: name, ID: id, Address: s.Address, Port: s.Port, Weight: share * resource.DefaultWeight, Status: status, TTL: i.TTL, Checks: i.Checks, Metadata: metadata,
		})
	}
}
