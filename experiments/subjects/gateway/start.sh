#!/usr/bin/env bash
# Start what answers gRPC-Web on a port of this machine: connect (the echo on connect-go, which speaks it itself) or
# gateway (Envoy, which translates for the echo on another port).
#
#   experiments/subjects/gateway/start.sh connect|gateway PORT PORT-OF-THE-ECHO
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ "$1" = gateway ] || exec "$here/../../../services/echo/rpc/run.sh" go-connect --listen "127.0.0.1:$2"
exec "$here/../run.sh" gateway --concurrency 1 --log-level error --config-yaml "
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: $2}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: echo
          codec_type: AUTO
          route_config:
            virtual_hosts:
            - {name: echo, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: echo}}]}
          http_filters:
          - name: envoy.filters.http.grpc_web
            typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.grpc_web.v3.GrpcWeb}
          - name: envoy.filters.http.router
            typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: echo
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        '@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: echo
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: $3}}}}]}]
"
