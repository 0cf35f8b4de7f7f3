package xds

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"dyno/services/control/resource"
	"dyno/services/control/traffic"
)

// A nodeInfo is what a client says of itself: in node.metadata, and by the name of its program.
type nodeInfo struct {
	audience audience
	outbound *core.SocketAddress // where its listener to all services is to be; nil is nowhere
	control  string              // the cluster by which it asks the control plane about shared limits; "" is none
	// service is the one that a proxy belongs to, whose identity it has; empty is none. It takes the service's requests
	// at inbound, and sends them to the port forward of its own machine; nil is nowhere.
	service service
	inbound *core.SocketAddress
	forward uint32
}

// parseNode reads a client's node. Metadata of others is ignored:
//
//	labels              texts by name
//	outbound, inbound   ADDRESS:PORT
//	service, namespace  names; the namespace is "default" if not given
//	forward             a port
//	control             the name of a cluster of its own
func parseNode(node *core.Node) (nodeInfo, error) {
	labels := map[string]string{}
	fields := node.GetMetadata().GetFields()
	for name, value := range fields["labels"].GetStructValue().GetFields() {
		text, ok := value.GetKind().(*structpb.Value_StringValue)
		if !ok || len(labels) == resource.DefaultLimits().Labels {
			return nodeInfo{}, fmt.Errorf("node.metadata.labels: %.40q: must be a text, and there may be %d", name, resource.DefaultLimits().Labels)
		}
		labels[name] = text.StringValue
	}
	info := nodeInfo{audience: audience{dataPlaneOf(node.GetUserAgentName()), node.GetId(), labels, node.GetLocality().GetZone(), "", fields["control"].GetStringValue() != ""}, control: fields["control"].GetStringValue()}
	var err error
	if info.outbound, err = addressOf(fields, "outbound"); err != nil {
		return info, err
	}
	if info.inbound, err = addressOf(fields, "inbound"); err != nil {
		return info, err
	}
	if name := fields["service"].GetStringValue(); name != "" {
		info.service = service{fields["namespace"].GetStringValue(), name}
		if info.service.namespace == "" {
			info.service.namespace = resource.DefaultNamespace
		}
		if err := info.service.check(); err != nil {
			return info, fmt.Errorf("node.metadata.service: %w", err)
		}
	}
	forward := fields["forward"].GetNumberValue()
	switch {
	case info.inbound == nil:
	case info.service.name == "":
		return info, fmt.Errorf("node.metadata.inbound: needs service")
	case forward < 1 || forward > 65535:
		return info, fmt.Errorf("node.metadata.forward: %v: must be the port of the service, from 1 to 65535", forward)
	}
	info.forward = uint32(forward)
	return info, nil
}

func addressOf(fields map[string]*structpb.Value, name string) (*core.SocketAddress, error) {
	value, ok := fields[name]
	if !ok {
		return nil, nil
	}
	at, err := netip.ParseAddrPort(value.GetStringValue())
	if err != nil {
		return nil, fmt.Errorf("node.metadata.%s: %.80q: must be ADDRESS:PORT", name, value.GetStringValue())
	}
	return &core.SocketAddress{Address: at.Addr().String(), PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(at.Port())}}, nil
}

// dataPlaneOf returns the kind of data plane with a user agent, such as "gRPC C-core linux".
func dataPlaneOf(agent string) string {
	words := append(strings.Fields(agent), "", "")
	if words[0] != "gRPC" {
		return traffic.Envoy
	}
	return cmp.Or(map[string]string{"Go": traffic.GRPCGo, "Java": traffic.GRPCJava, "C-core": traffic.GRPCCore}[words[1]], traffic.GRPC)
}
