package xds

import (
	"cmp"
	"time"

	load "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"dyno/services/control/access"
	"dyno/services/control/plane"
	"dyno/services/control/resource"
)

// StreamLoadStats implements the load reporting service (LRS), version 3: data planes say how many requests they send to which
// service.
func (s *Server) StreamLoadStats(stream load.LoadReportingService_StreamLoadStatsServer) error {
	if s.loads.Add(1) > int64(s.cfg.MaxStreams) {
		s.loads.Add(-1)
		return status.Errorf(codes.ResourceExhausted, "%d streams already", s.cfg.MaxStreams)
	}
	defer s.loads.Add(-1)
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	node := first.GetNode()
	about, err := parseNode(node)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	from := cmp.Or(about.service.name, node.GetCluster(), node.GetId())
	if err := plane.CheckClientName("node", from); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if err := stream.Send(&load.LoadStatsResponse{SendAllClusters: true, LoadReportingInterval: durationpb.New(s.cfg.LoadInterval)}); err != nil {
		return err
	}
	who := s.cfg.Caller(stream.Context())
	reports := s.plane.ReportCalls()
	defer reports.End()
	messages := make(chan *load.LoadStatsRequest)
	failed := make(chan error, 1)
	if !s.goes(func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case messages <- m:
			case <-stream.Context().Done():
				return
			}
		}
	}) {
		return status.Error(codes.Unavailable, "the control plane is ending")
	}
	for {
		select {
		case m := <-messages:
			report, err := callsOf(m, from, who)
			if err != nil {
				return err
			}
			reports.Note(report)
		case err := <-failed:
			return err
		case <-s.ctx.Done():
			return status.Error(codes.Unavailable, "the control plane is ending")
		}
	}
}

// callsOf sums a report by service, of those that the caller may know. Clusters that are no services are a data plane's own.
func callsOf(m *load.LoadStatsRequest, from string, who plane.Caller) (map[resource.Ref]plane.Calls, error) {
	if n := len(m.GetClusterStats()); n > plane.MaxCalls {
		return nil, status.Errorf(codes.InvalidArgument, "cluster_stats: %d of them: must be %d at most", n, plane.MaxCalls)
	}
	report := map[resource.Ref]plane.Calls{}
	for _, c := range m.GetClusterStats() {
		to, ok := parse(clusters, c.GetClusterName())
		interval := c.GetLoadReportInterval().AsDuration()
		if !ok || interval < time.Millisecond || !who.May(access.Read, to.namespace) {
			continue
		}
		sum := plane.Calls{From: from}
		for _, l := range c.GetUpstreamLocalityStats() {
			sum.Requests += float64(l.GetTotalIssuedRequests())
			sum.Errors += float64(l.GetTotalErrorRequests())
			sum.Active += float64(l.GetTotalRequestsInProgress())
		}
		sum.Requests /= interval.Seconds()
		sum.Errors /= interval.Seconds()
		report[to.ref()] = sum
	}
	return report, nil
}
