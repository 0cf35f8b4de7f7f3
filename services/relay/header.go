package relay

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"github.com/pires/go-proxyproto"
)

// The PROXY protocol, versions 1 and 2:
// https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt

const (
	// maxHeaderV1 is the longest line, CRLF included (section 2.1).
	maxHeaderV1 = 107
	// maxHeader bounds a version 2 header. The format allows 64 KiB, real ones have
	// 16 to a few hundred bytes.
	maxHeader = 2048
	// headroom is kept free before the bytes that follow a received header. The header to
	// send is put there: it has at most 16 + 216 bytes without extensions (section 2.2).
	headroom = 256
)

var (
	// errHeaderShort says that more bytes are needed.
	errHeaderShort   = errors.New("proxy protocol header: incomplete")
	errHeaderMissing = errors.New("proxy protocol header: missing")
	errHeaderLong    = errors.New("proxy protocol header: too long")
)

// parseHeader reads the PROXY protocol header at the start of b and returns its length.
// errHeaderShort means that more bytes may make b a header; it is returned only up to
// maxHeader bytes.
func parseHeader(b []byte) (*proxyproto.Header, int, error) {
	n, err := headerLength(b)
	if err != nil {
		return nil, 0, err
	}
	// The library requires that the reader holds all of the header.
	h, err := proxyproto.Read(bufio.NewReaderSize(bytes.NewReader(b[:n]), n))
	if err != nil {
		return nil, 0, fmt.Errorf("proxy protocol header: %w", err)
	}
	return h, n, nil
}

// headerLength finds the end of the header.
func headerLength(b []byte) (int, error) {
	v1, v2 := proxyproto.SIGV1, proxyproto.SIGV2
	switch {
	case bytes.HasPrefix(b, v2):
		if len(b) < 16 {
			return 0, errHeaderShort
		}
		n := 16 + int(binary.BigEndian.Uint16(b[14:]))
		if n > maxHeader {
			return 0, fmt.Errorf("%w: %d bytes: must have %d at most", errHeaderLong, n, maxHeader)
		}
		if len(b) < n {
			return 0, errHeaderShort
		}
		return n, nil
	case bytes.HasPrefix(b, v1):
		line := b[:min(len(b), maxHeaderV1)]
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			return i + 1, nil
		}
		if len(line) == maxHeaderV1 {
			return 0, fmt.Errorf("%w: its line does not end within %d bytes", errHeaderLong, maxHeaderV1)
		}
		return 0, errHeaderShort
	case bytes.HasPrefix(v1, b), bytes.HasPrefix(v2, b):
		return 0, errHeaderShort
	}
	return 0, errHeaderMissing
}

// formatHeader returns the header to send for a client: with the addresses from the header in, if it has any, and
// otherwise with the connection's own. Addresses that the format cannot express are sent as unknown: version 1 has no
// Unix sockets. Extensions of a received header are not passed on: they are statements about another connection.
func formatHeader(version ProxyOut, in *proxyproto.Header, peer, local net.Addr) ([]byte, error) {
	number := byte(2)
	if version == ProxyOutV1 {
		number = 1
	}
	h := &proxyproto.Header{Version: number, Command: proxyproto.LOCAL, TransportProtocol: proxyproto.UNSPEC}
	switch {
	case in != nil && in.Command == proxyproto.PROXY && in.SourceAddr != nil:
		h = proxyproto.HeaderProxyFromAddrs(number, in.SourceAddr, in.DestinationAddr)
	case in == nil:
		h = proxyproto.HeaderProxyFromAddrs(number, peer, local)
	}
	if _, ok := h.SourceAddr.(*net.UnixAddr); ok && number == 1 {
		h = &proxyproto.Header{Version: 1, Command: proxyproto.LOCAL, TransportProtocol: proxyproto.UNSPEC}
	}
	b, err := h.Format()
	if err != nil {
		return nil, fmt.Errorf("proxy protocol header: %w", err)
	}
	if len(b) > headroom {
		return nil, fmt.Errorf("proxy protocol header: %d bytes to send, at most %d fit", len(b), headroom)
	}
	return b, nil
}
