// Package grpc is the client's side of gRPC without I/O: calls over HTTP/2, as a wire.Mux,
// and gRPC-Web, binary and in base64, over HTTP/2 and, as a wire.Client, over HTTP/1.1.
// Below it are the codecs of packages http2 and http1, which know nothing of gRPC.
//
// It knows calls, messages and statuses. Messages are bytes, whose meaning only the
// caller knows. Each call is prepared once, its messages framed and, if asked
// for, compressed; after that, sending one costs no more than any other request of HTTP/2.
// Responses are followed message by message. A message is put together only if the
// caller wants to see it, or if it is compressed; else it is counted.
//
// # Sources
//
// The rules are those of the gRPC project's documents: "gRPC over HTTP2" (PROTOCOL-HTTP2.md), "gRPC
// Web" (PROTOCOL-WEB.md); "HTTP to gRPC Status Code Mapping" (http-grpc-status-mapping.md); "Status
// codes and their use in gRPC" (statuscodes.md). Comments name them as HTTP2, Web, Mapping and Codes.
// Those of compression are in "gRPC Compression" (compression.md).
//
// # How calls end
//
// Each call that is not good has an error whose text begins with its status, such as
// "grpc UNAVAILABLE". The status is the server's, or the one that the documents have for
// what happened instead:
//
//	what happened                                           wire.Kind  status
//	a status other than OK                                  Status     as it says
//	HTTP status other than 200, without grpc-status         Status     by Mapping
//	no grpc-status, or a content-type that is not gRPC's    Protocol   UNKNOWN
//	RST_STREAM                                              Reset      by its code (HTTP2)
//	REFUSED_STREAM, above the last stream of GOAWAY         Refused    UNAVAILABLE
//	GOAWAY with an error, connection closed                 Reset      UNAVAILABLE
//	message larger than the limit                           Limit      RESOURCE_EXHAUSTED
//	message cut short, compressed in a way that was not     Protocol   INTERNAL
//	offered
//	not one message where there must be one                 Protocol   UNIMPLEMENTED (Codes)
//	message that Check or Translate refuses                 Assertion  INTERNAL
//
// A local deadline (DEADLINE_EXCEEDED in gRPC's libraries) is the business of the caller, which has a
// clock.
package grpc
