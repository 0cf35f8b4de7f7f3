package xds

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimiting "github.com/envoyproxy/go-control-plane/envoy/config/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	limiting "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"dyno/services/control/access"
	"dyno/services/control/resource"
)

// Shared limits are asked for by Envoy's rate limit service (RLS), version 3. A descriptor has the rule's name and its
// limit, as the routes have them. So the server needs no policies for it.
const (
	sharedDomain = "policies"
	sharedKey    = "limit" // RATE BURST
	sharedStage  = 1       // of the filter and of the routes' descriptors: the local filter has 0
	// askTimeout bounds a question. Without an answer, a request passes.
	askTimeout = 250 * time.Millisecond
	// maxShared bounds the remembered limits.
	maxShared = 100_000
	// maxHits bounds what one request counts for, maxDescriptors and maxDescriptor (bytes) what it may ask.
	maxHits        = 1000
	maxDescriptors = 16
	maxDescriptor  = 1024
)

// sharedLimits is the filter that asks, by a cluster of the proxy.
func sharedLimits(control string) *ratelimit.RateLimit {
	return &ratelimit.RateLimit{
		Domain: sharedDomain, Stage: sharedStage, Timeout: durationpb.New(askTimeout), RateLimitedAsResourceExhausted: true,
		RateLimitService: &ratelimiting.RateLimitServiceConfig{
			TransportApiVersion: core.ApiVersion_V3,
			GrpcService:         &core.GrpcService{TargetSpecifier: &core.GrpcService_EnvoyGrpc_{EnvoyGrpc: &core.GrpcService_EnvoyGrpc{ClusterName: control}}},
		},
	}
}

func sharedText(l *resource.RateLimit) string {
	return strconv.FormatFloat(l.PerSecond, 'g', -1, 64) + " " + strconv.FormatFloat(l.Capacity(), 'f', 0, 64)
}

// ShouldRateLimit implements Envoy's rate limit service. A request passes if all of its descriptors do.
func (s *Server) ShouldRateLimit(ctx context.Context, q *limiting.RateLimitRequest) (*limiting.RateLimitResponse, error) {
	if q.GetDomain() != sharedDomain {
		return nil, status.Errorf(codes.InvalidArgument, "domain: %.40q: must be %s", q.GetDomain(), sharedDomain)
	}
	if len(q.GetDescriptors()) > maxDescriptors {
		return nil, status.Errorf(codes.InvalidArgument, "descriptors: %d of them: must be %d at most", len(q.GetDescriptors()), maxDescriptors)
	}
	who := s.cfg.Caller(ctx)
	out := &limiting.RateLimitResponse{OverallCode: limiting.RateLimitResponse_OK}
	for _, d := range q.GetDescriptors() {
		entries := d.GetEntries()
		if len(entries) != 2 || entries[0].GetKey() != limitKey || entries[1].GetKey() != sharedKey {
			return nil, status.Errorf(codes.InvalidArgument, "descriptors: want the keys %s and %s", limitKey, sharedKey)
		}
		name, limit := entries[0].GetValue(), entries[1].GetValue()
		if len(name)+len(limit) > maxDescriptor {
			return nil, status.Errorf(codes.InvalidArgument, "descriptors: %.40q: must have %d bytes at most", name, maxDescriptor)
		}
		var perSecond, burst float64
		if n, err := fmt.Sscanf(limit, "%g %g", &perSecond, &burst); err != nil || n != 2 || !(perSecond > 0 && perSecond <= 1e9 && burst >= 1 && burst <= math.MaxInt32) {
			return nil, status.Errorf(codes.InvalidArgument, "descriptors: %.40q: must be RATE BURST", limit)
		}
		if namespace, _, _ := strings.Cut(name, "/"); !who.May(access.Read, namespace) {
			return nil, status.Errorf(codes.PermissionDenied, "descriptors: %.40q: this caller may not read namespace %.63q", name, namespace)
		}
		code := limiting.RateLimitResponse_OK
		for range min(max(q.GetHitsAddend(), 1), maxHits) {
			if ok, _ := s.limits.Allow(name+" "+limit, perSecond, int(burst), time.Since(s.began)); !ok {
				code = limiting.RateLimitResponse_OVER_LIMIT
				out.OverallCode = code
			}
		}
		out.Statuses = append(out.Statuses, &limiting.RateLimitResponse_DescriptorStatus{Code: code})
	}
	return out, nil
}
