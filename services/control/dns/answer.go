// Package dns answers queries for the control plane's services by DNS (RFC 1034, 1035), for programs that use nothing
// else:
//
//	shop.default.control.internal.         A, AAAA: addresses; SRV: addresses, ports and weights
//	_shop._tcp.default.control.internal.   the same, in the form of RFC 2782
//	v2.shop.default.control.internal.      only instances with the tag v2; also _shop._v2.default.control.internal.
//	shop.service.consul.                   a name of Consul's form
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
	"slices"
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
	// Consul is a second domain, such as "consul.", with names of Consul's form; "" is none. They are of services in
	// Namespace, unless they name another one, and of Datacenter, the only one that they may name.
	Consul, Namespace, Datacenter string
	// TTL is for how many seconds an answer may be cached, also one without records.
	TTL uint32
	// Find returns the endpoints of a service that accept requests; found reports whether the service is known. With a
	// tag, it is about instances with the tag, and found also reports tags that end with a dot and this one. Names are in
	// lower case: DNS ignores case.
	Find func(namespace, service, tag string) (endpoints []Endpoint, found bool)
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
	domain := z.Domain
	if !within(name, domain) {
		domain = z.Consul
	}
	if !within(name, domain) || q.Class != dnsmessage.ClassINET && q.Class != dnsmessage.ClassANY || q.Type == typeIXFR || q.Type == typeAXFR {
		m.RCode = dnsmessage.RCodeRefused // another domain, or a transfer of the zone
		return
	}
	m.Authoritative = true
	known := name == domain
	if known && (q.Type == dnsmessage.TypeSOA || q.Type == dnsmessage.TypeALL) {
		m.Answers = append(m.Answers, z.authority(domain))
	}
	if !known {
		labels := strings.Split(strings.TrimSuffix(name, "."+domain), ".")
		known = true
		if domain != z.Domain {
			labels, known = z.fromConsul(labels)
		}
		if len(labels) > 0 {
			known = z.resolve(m, q, domain, labels)
		}
	}
	if len(m.Answers) > 0 {
		return
	}
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	m.Authorities = append(m.Authorities, z.authority(domain)) // for how long the absence may be cached (RFC 2308)
}

// within reports whether a name is a domain, or below it.
func within(name, domain string) bool {
	return domain != "" && (name == domain || strings.HasSuffix(name, "."+domain))
}

// fromConsul returns the labels of this package's own form for those of a name in Consul's: [TAG.]SERVICE.service and
// ADDRESS.addr, followed by nothing, DATACENTER, or [NAMESPACE.ns.][DATACENTER.dc]; see Consul's documentation, "Perform static
// DNS queries". Without labels, known says whether there are names below this one.
func (z *Zone) fromConsul(labels []string) (own []string, known bool) {
	namespace := z.Namespace
	last := func(n int) string {
		if len(labels) < n {
			return ""
		}
		return labels[len(labels)-n]
	}
	if last(1) == "dc" && last(2) != "" {
		if last(2) != z.Datacenter {
			return nil, false
		}
		labels = labels[:len(labels)-2]
	} else if last(1) == z.Datacenter {
		labels = labels[:len(labels)-1]
	}
	if last(1) == "ns" && last(2) != "" {
		namespace = last(2)
		if labels = labels[:len(labels)-2]; len(labels) == 0 {
			return nil, z.Below(namespace, "")
		}
	}
	switch last(1) {
	case addressLabel:
		return labels, true
	case "service":
		if len(labels) > 1 {
			return append(slices.Clone(labels[:len(labels)-1]), namespace), true
		}
		return nil, true
	}
	return nil, len(labels) == 0 || len(labels) == 1 && (last(1) == "dc" || last(1) == "ns")
}

// resolve adds the records of a name below the domain, and reports whether the name exists. It exists if it has
// records of some type, or if there are names below it (RFC 8020). Resolvers end their search at a name that exists.
func (z *Zone) resolve(m *dnsmessage.Message, q dnsmessage.Question, domain string, labels []string) (known bool) {
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
	tag, byRFC := "", false
	if len(labels) > 0 {
		tag, byRFC = strings.CutPrefix(labels[len(labels)-1], "_")
	}
	if byRFC {
		labels = labels[:len(labels)-1]
	}
	service := strings.Join(labels, ".")
	below := z.Below(namespace, service) // that a namespace has a tag is not looked up: _TAG exists like _tcp
	var endpoints []Endpoint
	switch name, underscored := strings.CutPrefix(service, "_"); {
	case service == "" || byRFC && !underscored:
		return below
	case byRFC:
		if tag == "tcp" {
			tag = ""
		}
		endpoints, known = z.Find(namespace, name, tag)
	default:
		endpoints, known = z.Find(namespace, service, "")
		for i := 1; i < len(labels) && !known; i++ { // a service whose name has a dot goes first
			endpoints, known = z.Find(namespace, strings.Join(labels[i:], "."), strings.Join(labels[:i], "."))
		}
	}
	before := map[netip.Addr]struct{}{}
	rand.Shuffle(len(endpoints), func(i, j int) { endpoints[i], endpoints[j] = endpoints[j], endpoints[i] })
	heaviest := 0
	for _, e := range endpoints {
		heaviest = max(heaviest, e.Weight)
	}
	for _, e := range endpoints {
		ip, err := netip.ParseAddr(e.Host)
		if q.Type == dnsmessage.TypeSRV || q.Type == dnsmessage.TypeALL && byRFC {
			z.service(m, q, domain, e, scaled(e.Weight, heaviest), ip, before)
		} else if err == nil {
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
func (z *Zone) service(m *dnsmessage.Message, q dnsmessage.Question, domain string, e Endpoint, weight uint16, ip netip.Addr, before map[netip.Addr]struct{}) {
	target := strings.TrimSuffix(e.Host, ".") + "."
	if ip.IsValid() {
		target = labelOf(ip) + "." + addressLabel + "." + domain
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

// authority returns a domain's SOA record. There are no zone transfers, so most of its fields are unused.
func (z *Zone) authority(domain string) dnsmessage.Resource {
	name := dnsmessage.MustNewName(domain)
	return dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: name, Type: dnsmessage.TypeSOA, Class: dnsmessage.ClassINET, TTL: z.TTL},
		Body:   &dnsmessage.SOAResource{NS: name, MBox: name, Serial: 1, Refresh: z.TTL, Retry: z.TTL, Expire: z.TTL, MinTTL: z.TTL},
	}
}
