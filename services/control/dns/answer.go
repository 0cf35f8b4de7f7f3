// Package dns answers queries for the control plane's services by DNS (RFC 1034, 1035), for programs that use nothing
// else:
//
//	shop.default.control.internal.         A, AAAA: addresses; SRV: addresses, ports and weights
//	_shop._tcp.default.control.internal.   SRV, as RFC 2782 has it
//
// To read the source: answer.go turns a query into an answer, without I/O, and server.go
// carries both.
package dns

import (
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// An Endpoint is where an instance of a service is.
type Endpoint struct {
	Host   string // an IP address, or a host name, which only SRV records can carry
	Port   uint16
	Weight int // its share of the requests, at least 1
}

// A Zone answers queries about one domain. Its methods may be called from any goroutine.
type Zone struct {
	// Domain is the suffix of all names, such as "control.internal.": in lower case, with a dot.
	Domain string
	// TTL is for how many seconds an answer may be cached, also one without records.
	TTL uint32
	// Find returns the endpoints of a service that accept requests; found reports whether the service is known. Names
	// are in lower case: DNS ignores case.
	Find func(namespace, service string) (endpoints []Endpoint, found bool)
	// Below reports whether a namespace has a service whose name ends with a dot and an ending. With an empty ending,
	// any service counts. Then names exist below (RFC 8020).
	Below func(namespace, ending string) bool
}

// Sizes of messages over UDP, in bytes: without EDNS(0) (RFC 1035, section 4.2.1), and the
// most that crosses networks in one piece.
const (
	plainSize = 512
	mostSize  = 1232
)

// addressLabel is the label, below the domain, of names of addresses, which SRV records refer to.
const addressLabel = "addr"

// Answer returns the answer to a query over TCP or UDP; nil if the message is not a query.
func (z *Zone) Answer(query []byte, tcp bool) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(query)
	if err != nil || head.Response {
		return nil
	}
	reply := dnsmessage.Message{Header: dnsmessage.Header{
		ID: head.ID, Response: true, OpCode: head.OpCode, RecursionDesired: head.RecursionDesired,
	}}
	questions, err := p.AllQuestions()
	var e edns
	if err == nil {
		e, err = readEDNS(&p)
	}
	extended := dnsmessage.RCodeSuccess
	switch {
	case head.OpCode != 0:
		reply.RCode = dnsmessage.RCodeNotImplemented
	case err != nil || len(questions) != 1:
		reply.RCode = dnsmessage.RCodeFormatError
	case e.version > 0:
		reply.Questions, extended = questions, badVersion
	default:
		reply.Questions = questions
		z.fill(&reply, questions[0])
	}
	if e.used {
		var h dnsmessage.ResourceHeader
		if h.SetEDNS0(mostSize, extended, e.dnssec) == nil {
			reply.Additionals = append(reply.Additionals, dnsmessage.Resource{Header: h, Body: &dnsmessage.OPTResource{}})
		}
	}
	limit := min(max(e.size, plainSize), mostSize)
	if tcp {
		limit = maxTCP
	}
	return pack(&reply, limit, tcp)
}

// badVersion says that the server has a lower version of EDNS than the query. Its upper bits are in the OPT record.
const badVersion dnsmessage.RCode = 16

// edns has the parameters of a query's EDNS(0) record (RFC 6891).
type edns struct {
	used    bool
	size    int // of an answer over UDP
	version int
	dnssec  bool // copied to the answer (RFC 3225)
}

// readEDNS reads a query's OPT record: there is at most one, of the root. Its options are ignored.
func readEDNS(p *dnsmessage.Parser) (e edns, err error) {
	if err := p.SkipAllAnswers(); err != nil {
		return e, err
	}
	if err := p.SkipAllAuthorities(); err != nil {
		return e, err
	}
	for {
		h, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return e, nil
		}
		if err != nil {
			return e, err
		}
		if h.Type != dnsmessage.TypeOPT {
			if err := p.SkipAdditional(); err != nil {
				return e, err
			}
			continue
		}
		if e.used || h.Name.String() != "." {
			return e, errors.New("more than one OPT record, or one that is not of the root")
		}
		if _, err := p.OPTResource(); err != nil {
			return e, err
		}
		e = edns{true, int(h.Class), int(h.TTL >> 16 & 0xff), h.DNSSECAllowed()}
	}
}

// pack writes an answer of at most limit bytes. A longer answer is cut to the records that fit; since they are in
// random order, everybody gets others. Over UDP it is marked as truncated: the client retries over TCP, and one that
// cannot still has some records. Over TCP it is not marked: a client has no better way to ask, and resolvers would
// discard it.
func pack(m *dnsmessage.Message, limit int, tcp bool) []byte {
	out, err := m.Pack()
	if err == nil && len(out) <= limit {
		return out
	}
	keep := m.Additionals[:0]
	for _, r := range m.Additionals {
		if r.Header.Type == dnsmessage.TypeOPT {
			keep = append(keep, r)
		}
	}
	m.Additionals = keep
	if out, err = m.Pack(); err == nil && len(out) <= limit { // clients can query the targets of SRV records
		return out
	}
	m.Truncated = !tcp
	return packMost(m, limit)
}

// packMost writes as many of the answers as fit.
func packMost(m *dnsmessage.Message, limit int) (most []byte) {
	all := m.Answers
	low, high := 0, len(all) // low records fit, and more than high do not
	for n := low; ; n = (low + high) / 2 {
		m.Answers = all[:n]
		out, err := m.Pack()
		if err == nil && len(out) <= limit {
			low, most = n, out
		} else {
			high = n
		}
		if high-low <= 1 {
			return most
		}
	}
}

// Types of transfers of a zone (RFC 5936, 1995).
const (
	typeIXFR dnsmessage.Type = 251
	typeAXFR dnsmessage.Type = 252
)

// fill answers a question.
func (z *Zone) fill(m *dnsmessage.Message, q dnsmessage.Question) {
	name := strings.ToLower(q.Name.String())
	mine := name == z.Domain || strings.HasSuffix(name, "."+z.Domain)
	if !mine || q.Class != dnsmessage.ClassINET && q.Class != dnsmessage.ClassANY || q.Type == typeIXFR || q.Type == typeAXFR {
		m.RCode = dnsmessage.RCodeRefused // another domain, or a transfer of the zone
		return
	}
	m.Authoritative = true
	known := name == z.Domain
	if known && (q.Type == dnsmessage.TypeSOA || q.Type == dnsmessage.TypeALL) {
		m.Answers = append(m.Answers, z.authority())
	}
	if !known {
		known = z.resolve(m, q, strings.Split(strings.TrimSuffix(name, "."+z.Domain), "."))
	}
	if len(m.Answers) > 0 {
		return
	}
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	m.Authorities = append(m.Authorities, z.authority()) // for how long the absence may be cached (RFC 2308)
}

// resolve adds the records of a name below the domain, and reports whether the name exists. It exists if it has
// records of some type, or if there are names below it (RFC 8020). Resolvers end their search at a name that exists.
func (z *Zone) resolve(m *dnsmessage.Message, q dnsmessage.Question, labels []string) (known bool) {
	namespace, labels := labels[len(labels)-1], labels[:len(labels)-1]
	if namespace == addressLabel && len(labels) <= 1 {
		if len(labels) == 0 {
			return true
		}
		ip, ok := addressOf(labels[0])
		if ok {
			z.address(&m.Answers, q, q.Name, ip, map[netip.Addr]struct{}{})
		}
		return ok
	}
	byRFC := len(labels) > 0 && labels[len(labels)-1] == "_tcp"
	if byRFC {
		labels = labels[:len(labels)-1]
	}
	service := strings.Join(labels, ".")
	below := z.Below(namespace, service)
	if byRFC && service != "" {
		if service, known = strings.CutPrefix(service, "_"); !known {
			return below
		}
	}
	if service == "" {
		return below
	}
	endpoints, known := z.Find(namespace, service)
	before := map[netip.Addr]struct{}{}
	rand.Shuffle(len(endpoints), func(i, j int) { endpoints[i], endpoints[j] = endpoints[j], endpoints[i] })
	heaviest := 0
	for _, e := range endpoints {
		heaviest = max(heaviest, e.Weight)
	}
	for _, e := range endpoints {
		ip, err := netip.ParseAddr(e.Host)
		if q.Type == dnsmessage.TypeSRV || q.Type == dnsmessage.TypeALL && byRFC {
			z.service(m, q, e, scaled(e.Weight, heaviest), ip, before)
		} else if err == nil && !byRFC {
			z.address(&m.Answers, q, q.Name, ip, before)
		}
	}
	return known || below
}

// scaled returns a weight in the range of SRV records (RFC 2782), in proportion to the heaviest one. It is never 0:
// then the others would get nearly all requests.
func scaled(weight, heaviest int) uint16 {
	if heaviest > math.MaxUint16 {
		weight = (weight*math.MaxUint16 + heaviest/2) / heaviest
	}
	return uint16(max(weight, 1)) //nolint:gosec // not above MaxUint16
}

// address adds an A or AAAA record, if the query asks for that type and the answer lacks the address. Several
// instances may share an address, which has one name in an answer.
func (z *Zone) address(to *[]dnsmessage.Resource, q dnsmessage.Question, name dnsmessage.Name, ip netip.Addr, before map[netip.Addr]struct{}) {
	ip = ip.Unmap().WithZone("")
	kind, body := dnsmessage.TypeAAAA, dnsmessage.ResourceBody(&dnsmessage.AAAAResource{AAAA: ip.As16()})
	if ip.Is4() {
		kind, body = dnsmessage.TypeA, &dnsmessage.AResource{A: ip.As4()}
	}
	if q.Type != kind && q.Type != dnsmessage.TypeALL && q.Type != dnsmessage.TypeSRV {
		return
	}
	if _, ok := before[ip]; ok {
		return
	}
	before[ip] = struct{}{}
	*to = append(*to, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: name, Type: kind, Class: dnsmessage.ClassINET, TTL: z.TTL}, Body: body})
}

// service adds an SRV record, and the address that it refers to.
func (z *Zone) service(m *dnsmessage.Message, q dnsmessage.Question, e Endpoint, weight uint16, ip netip.Addr, before map[netip.Addr]struct{}) {
	target := strings.TrimSuffix(e.Host, ".") + "."
	if ip.IsValid() {
		target = labelOf(ip) + "." + addressLabel + "." + z.Domain
	}
	name, err := dnsmessage.NewName(target)
	if err != nil {
		return // the name is too long
	}
	m.Answers = append(m.Answers, dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: q.Name, Type: dnsmessage.TypeSRV, Class: dnsmessage.ClassINET, TTL: z.TTL},
		Body:   &dnsmessage.SRVResource{Weight: weight, Port: e.Port, Target: name},
	})
	if ip.IsValid() {
		z.address(&m.Additionals, q, name, ip, before)
	}
}

// labelOf returns an address as one label, in hexadecimal; addressOf parses it.
func labelOf(ip netip.Addr) string { return hex.EncodeToString(ip.Unmap().AsSlice()) }

func addressOf(label string) (netip.Addr, bool) {
	raw, err := hex.DecodeString(label)
	if err != nil {
		return netip.Addr{}, false
	}
	return netip.AddrFromSlice(raw)
}

// authority returns the domain's SOA record. There are no zone transfers, so most of its fields are unused.
func (z *Zone) authority() dnsmessage.Resource {
	domain := dnsmessage.MustNewName(z.Domain)
	return dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: domain, Type: dnsmessage.TypeSOA, Class: dnsmessage.ClassINET, TTL: z.TTL},
		Body:   &dnsmessage.SOAResource{NS: domain, MBox: domain, Serial: 1, Refresh: z.TTL, Retry: z.TTL, Expire: z.TTL, MinTTL: z.TTL},
	}
}
