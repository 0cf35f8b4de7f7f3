package tlslayer

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strconv"
	"strings"

	"dyno/load/wire"
)

// Ends of a connection with fixed texts. The others' texts depend on what the server sent.
var (
	ErrIdle   = &wire.Error{Kind: wire.TLS, Text: "no handshake was begun or completed"}
	ErrClosed = &wire.Error{Kind: wire.Reset, Text: "the TLS session was closed (close_notify)"}

	ErrNoCloseNotify = &wire.Error{Kind: wire.Reset, Text: "connection closed without TLS close_notify: what came may be cut short"}
	ErrCutRecord     = &wire.Error{Kind: wire.Reset, Text: "connection closed inside a TLS record"}

	ErrRenegotiation = &wire.Error{Kind: wire.Protocol, Text: "the server asks for a TLS renegotiation, which is not done"}
	ErrKeyUpdates    = &wire.Error{Kind: wire.Protocol, Text: "the server asks for key updates and takes no answers"}
	ErrNoData        = &wire.Error{Kind: wire.Protocol, Text: "more TLS records without data in a row than the limit"}
	ErrForged        = &wire.Error{Kind: wire.Protocol, Text: "a TLS record fails authentication (bad_record_mac)"}
)

// cutHandshake is the error of a handshake that the server ended by closing the
// connection.
func (c *Conn) cutHandshake() *wire.Error {
	t := &c.transport
	switch got := t.records.header[:t.records.got]; {
	case t.received == 0:
		return c.context.failure(wire.TLS, "the server closed the connection instead of answering the handshake: does it speak TLS on this port?")
	case t.received < recordHeader && (got[0] < recordAlert || got[0] > recordHandshake):
		return c.context.failure(wire.TLS, fmt.Sprintf("the server does not speak TLS: it answered %q and closed the connection", got))
	default:
		return c.context.failure(wire.TLS, "the server closed the connection in the middle of the handshake")
	}
}

// The types of records that a handshake may have without encryption (RFC 8446, section
// 5.1).
const (
	recordAlert     = 21
	recordHandshake = 22
)

// explain makes an error of crypto/tls one that tells what to do. Before the handshake is complete, it
// has kind TLS.
func (c *Conn) explain(err error) *wire.Error {
	kind := wire.Protocol
	if c.state == Handshaking {
		kind = wire.TLS
	}
	var (
		header      tls.RecordHeaderError
		certificate *tls.CertificateVerificationError
		op          *net.OpError
	)
	switch {
	case errors.Is(err, io.EOF): // the transport has none: it is close_notify
		return c.context.failure(wire.TLS, "the server ended the session in the middle of the handshake (close_notify)")
	case errors.As(err, &certificate):
		return c.context.failure(wire.TLS, c.untrusted(certificate.Err))
	case errors.As(err, &header):
		return c.context.failure(kind, badHeader(header, c.tls.ConnectionState().Version == 0))
	case errors.As(err, &op):
		code, ok := alertCode(op.Err)
		if ok && op.Op == "remote error" {
			return c.context.failure(wire.TLS, c.refused(code)) // in TLS 1.3 it may come after the handshake
		}
		switch {
		case ok && code == noRenegotiation:
			return ErrRenegotiation
		case ok && code == badRecordMAC && kind == wire.Protocol:
			return ErrForged
		case ok:
			return c.context.failure(kind, "the server breaks TLS: "+alertName(code))
		}
	}
	text := bare(err).Error()
	switch {
	case text == "too many ignored records" || text == "too many non-advancing records":
		if kind == wire.Protocol {
			return ErrNoData
		}
	case strings.HasPrefix(text, unsupportedVersion):
		if id, err := strconv.ParseUint(text[len(unsupportedVersion):], 16, 16); err == nil {
			text = fmt.Sprintf("the server chose %s: %s", tls.VersionName(uint16(id)), c.context.offered())
		}
	}
	if kind == wire.Protocol {
		return c.context.failure(kind, "the server breaks TLS: "+text)
	}
	return c.context.failure(kind, "handshake failed: "+text)
}

const unsupportedVersion = "server selected unsupported protocol version "

// bare is an error of crypto/tls or crypto/x509 without the package's name.
func bare(err error) error {
	for _, prefix := range []string{"tls: ", "x509: "} {
		if text, ok := strings.CutPrefix(err.Error(), prefix); ok {
			return errors.New(text)
		}
	}
	return err
}

// offered says which versions are.
func (x *Context) offered() string {
	low, high := tls.VersionName(x.config.MinVersion), tls.VersionName(x.config.MaxVersion)
	if low == high {
		return "only " + high + " is offered"
	}
	return "only " + low + " and " + high + " are offered"
}

// badHeader explains a record's header that cannot be one; first: before the server has
// said which version it speaks.
func badHeader(e tls.RecordHeaderError, first bool) string {
	header := e.RecordHeader[:]
	version := uint16(header[1])<<8 | uint16(header[2])
	switch isRecord := header[0] >= 20 && header[0] <= 23 && header[1] == 3; {
	case string(header) == "HTTP/":
		return "the server does not speak TLS: it answered in plain HTTP (http instead of https, or another port)"
	case !isRecord && first:
		return fmt.Sprintf("the server does not speak TLS: its answer begins with %q", header)
	case !isRecord:
		return fmt.Sprintf("the server breaks TLS: %q where a record should begin", header)
	case first && header[0] != recordAlert && header[0] != recordHandshake:
		return fmt.Sprintf("the server breaks TLS: it begins with a record of type %d, want a handshake's", header[0])
	case !first && version != tls.VersionTLS12:
		return fmt.Sprintf("the server breaks TLS: a record of version %#04x, want 0x0303", version)
	default:
		return "the server breaks TLS: a record longer than it may be"
	}
}

// untrusted explains why a certificate is not accepted.
func (c *Conn) untrusted(err error) string {
	const skip = ", or skip the check by --insecure"
	var (
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &unknown) && unknown.Cert != nil && string(unknown.Cert.RawIssuer) == string(unknown.Cert.RawSubject):
		return fmt.Sprintf("the server's certificate (%s) is self-signed: trust it by --cacert%s", nameOf(unknown.Cert.Subject), skip)
	case errors.As(err, &unknown) && unknown.Cert != nil:
		return fmt.Sprintf("the server's certificate is signed by an unknown authority (%s): give its certificate by --cacert%s", nameOf(unknown.Cert.Issuer), skip)
	case errors.As(err, &host):
		return fmt.Sprintf("the server's certificate is for %s, not for %q: ask for a name that it has%s", namesIn(host.Certificate), clip(host.Host), skip)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		return fmt.Sprintf("the server's certificate or one of its chain (%s) is valid from %s to %s only: renew it, correct the clock%s",
			nameOf(invalid.Cert.Subject), day(invalid.Cert.NotBefore), day(invalid.Cert.NotAfter), skip)
	default:
		return "the server's certificate is not accepted: " + clip(bare(err).Error()) + skip
	}
}

// refused explains an alert of the server's (RFC 8446, section 6.2).
func (c *Conn) refused(code uint8) string {
	hint := ""
	mine := c.context.config.GetClientCertificate != nil
	switch a := alerts[code]; {
	case a.certificate && mine && a.hint != "":
		hint = a.hint
	case a.certificate && mine:
		hint = "it does not accept the client certificate"
	case a.certificate:
		hint = "it wants a client certificate"
	case code == protocolVersion:
		hint = c.context.offered()
	case code == unrecognizedName:
		hint = fmt.Sprintf("it does not know the server name %q", clip(c.context.config.ServerName))
	case code == noApplicationProtocol:
		hint = "it speaks none of the protocols offered by ALPN: " + clip(strings.Join(c.context.config.NextProtos, ", "))
	default:
		hint = a.hint
	}
	text := "the server ended the session by an alert: " + alertName(code)
	if c.state == Handshaking {
		text = "the server refused the handshake: " + alertName(code)
	}
	if hint != "" {
		text += ": " + hint
	}
	return text
}

// The alerts that are treated apart.
const (
	badRecordMAC          = 20
	protocolVersion       = 70
	noRenegotiation       = 100
	unrecognizedName      = 112
	noApplicationProtocol = 120
)

// An alert is the text for an alert.
type alert struct {
	name        string
	certificate bool // it may be about the client's certificate
	hint        string
}

// alerts come from RFC 8446, section 6, RFC 5246, section 7.2, and RFC 7301.
var alerts = map[uint8]alert{
	10:                    {name: "unexpected_message"},
	badRecordMAC:          {name: "bad_record_mac"},
	22:                    {name: "record_overflow"},
	40:                    {name: "handshake_failure", hint: "the two may share no version, cipher suite or group, or it wants a client certificate"},
	42:                    {name: "bad_certificate", certificate: true},
	43:                    {name: "unsupported_certificate", certificate: true},
	44:                    {name: "certificate_revoked", certificate: true, hint: "the client certificate is revoked"},
	45:                    {name: "certificate_expired", certificate: true, hint: "the client certificate is not valid at this time"},
	46:                    {name: "certificate_unknown", certificate: true},
	47:                    {name: "illegal_parameter"},
	48:                    {name: "unknown_ca", certificate: true, hint: "it does not know who signed the client certificate"},
	49:                    {name: "access_denied", certificate: true},
	50:                    {name: "decode_error"},
	51:                    {name: "decrypt_error"},
	protocolVersion:       {name: "protocol_version"},
	71:                    {name: "insufficient_security", hint: "it wants stronger cipher suites or groups"},
	80:                    {name: "internal_error", hint: "its log may tell more"},
	86:                    {name: "inappropriate_fallback"},
	90:                    {name: "user_canceled"},
	noRenegotiation:       {name: "no_renegotiation"},
	109:                   {name: "missing_extension"},
	110:                   {name: "unsupported_extension"},
	unrecognizedName:      {name: "unrecognized_name"},
	113:                   {name: "bad_certificate_status_response"},
	115:                   {name: "unknown_psk_identity"},
	116:                   {name: "certificate_required", certificate: true},
	noApplicationProtocol: {name: "no_application_protocol"},
}

// alertName writes an alert's name, or its number.
func alertName(code uint8) string {
	if a, ok := alerts[code]; ok {
		return a.name
	}
	return fmt.Sprintf("alert %d", code)
}

// alertCode returns the code of crypto/tls's alerts, whose type it does not export.
func alertCode(err error) (uint8, bool) {
	v := reflect.ValueOf(err)
	if !v.IsValid() || v.Kind() != reflect.Uint8 {
		return 0, false
	}
	return uint8(v.Uint()), true
}

// maxName bounds what a text quotes of the server's words.
const maxName = 100

// clip shortens a long text, and makes it safe to print.
func clip(s string) string {
	if len(s) > maxName {
		s = s[:maxName] + "…"
	}
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// nameOf writes who a certificate is about or from.
func nameOf(n pkix.Name) string {
	if n.CommonName != "" {
		return clip(n.CommonName)
	}
	if s := n.String(); s != "" {
		return clip(s)
	}
	return "without a name"
}

// namesIn lists the first names that a certificate is for.
func namesIn(cert *x509.Certificate) string {
	var names []string
	names = append(names, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	const most = 3
	switch {
	case len(names) == 0:
		return "no name that counts (it has no subject alternative names)"
	case len(names) > most:
		names = append(names[:most], fmt.Sprintf("%d more", len(names)-most))
	}
	return clip(strings.Join(names, ", "))
}
