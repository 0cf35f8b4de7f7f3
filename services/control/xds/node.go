package xds

import (
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
}

// parseNode reads a client's node. Metadata of others is ignored; "labels" are texts by name, and "outbound" is
// ADDRESS:PORT.
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
	info := nodeInfo{audience: newAudience(strings.HasPrefix(node.GetUserAgentName(), "gRPC"), node.GetId(), node.GetLocality().GetZone(), labels)}
	if value, ok := fields["outbound"]; ok {
		at, err := netip.ParseAddrPort(value.GetStringValue())
		if err != nil {
			return info, fmt.Errorf("node.metadata.outbound: %.80q: must be ADDRESS:PORT", value.GetStringValue())
		}
		info.outbound = &core.SocketAddress{Address: at.Addr().String(), PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(at.Port())}}
	}
	return info, nil
}

// kind is the kind of data plane.
func (i nodeInfo) kind() string {
	if i.audience.grpc {
		return traffic.GRPC
	}
	return traffic.Envoy
}
