// Package dns has the control plane's services found by DNS (RFC 1034, 1035), for
// programs that know nothing else:
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
	Host   string // an IP address, or a host name, which is told by SRV only
	Port   uint16
	Weight int // its share, of any size; 1 at least
}

// A Zone answers queries about one domain. Its methods may be called from any goroutine.
type Zone struct {
	// Domain ends all names, such as "control.internal.": in lower case, with a dot.
	Domain string
	// TTL is for how many seconds an answer may be kept, one that there is nothing too.
	TTL uint32
	// Find returns the endpoints of a service that take requests; found tells whether the
	// service is known. Names are in lower case: DNS does not tell case apart.
	Find func(namespace, service string) (endpoints []Endpoint, found bool)
	// Below tells whether a namespace has a service whose name ends with a dot and an ending, or any service, if the
	// ending is empty: then there are names below (RFC 8020).
	Below func(namespace, ending string) bool
}

// Sizes of messages over UDP, in bytes: without EDNS(0) (RFC 1035, section 4.2.1), and the
// most that crosses networks in one piece.
const (
	plainSize = 512
	mostSize  = 1232
)

// addressLabel is below the domain where names of addresses are, for SRV to refer to.
const addressLabel = "addr"

// Answer returns the answer to a query that came over TCP or UDP; nil is none, to what is
// no query.
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

// edns is what a query says by EDNS(0) (RFC 6891).
type edns struct {
	used    bool
	size    int // of an answer over UDP
	version int
	dnssec  bool // the answer says so, too (RFC 3225)
}

// readEDNS reads a query's OPT record: there is one at most, of the root. What options it has matters to nobody here.
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

// pack writes an answer of at most limit bytes. What is too long has as many records as there
// is room for; since they are in random order, everybody gets others. Over UDP it says that it is
// truncated: the asker comes by TCP, and whoever cannot has something. Over TCP it does not say so:
// nobody could ask in a better way, and resolvers would take none of it.
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
	if out, err = m.Pack(); err == nil && len(out) <= limit { // what SRV refers to can be asked for
		return out
	}
	m.Truncated = !tcp
	return packMost(m, limit)
}

// packMost writes as many of the answers as there is room for.
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
		m.RCode = dnsmessage.RCodeRefused // it is somebody else's, or not for everybody
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
	m.Authorities = append(m.Authorities, z.authority()) // for how long there is nothing (RFC 2308)
}

// resolve adds the records of a name below the domain, and tells whether there is such a name: it has records of some
// type, or there are names below it (RFC 8020). Resolvers end their search at a name that exists.
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

// scaled is a weight in the range of SRV records (RFC 2782), in proportion to the heaviest one. None becomes 0, by which
// others would get nearly all.
func scaled(weight, heaviest int) uint16 {
	if heaviest > math.MaxUint16 {
		weight = (weight*math.MaxUint16 + heaviest/2) / heaviest
	}
	return uint16(max(weight, 1)) //nolint:gosec // not above MaxUint16
}

// address adds an A or AAAA record, if that is what was asked for and the answer has none yet of
// the address: several instances may be at one, which has one name in an answer.
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
		return // longer than a name may be
	}
	m.Answers = append(m.Answers, dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: q.Name, Type: dnsmessage.TypeSRV, Class: dnsmessage.ClassINET, TTL: z.TTL},
		Body:   &dnsmessage.SRVResource{Weight: weight, Port: e.Port, Target: name},
	})
	if ip.IsValid() {
		z.address(&m.Additionals, q, name, ip, before)
	}
}

// labelOf is an address as one label, in hexadecimal; addressOf reads it.
func labelOf(ip netip.Addr) string { return hex.EncodeToString(ip.Unmap().AsSlice()) }

func addressOf(label string) (netip.Addr, bool) {
	raw, err := hex.DecodeString(label)
	if err != nil {
		return netip.Addr{}, false
	}
	return netip.AddrFromSlice(raw)
}

// authority is the domain's SOA record. Nobody copies the zone, so most of it means
// nothing.
func (z *Zone) authority() dnsmessage.Resource {
	domain := dnsmessage.MustNewName(z.Domain)
	return dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: domain, Type: dnsmessage.TypeSOA, Class: dnsmessage.ClassINET, TTL: z.TTL},
		Body:   &dnsmessage.SOAResource{NS: domain, MBox: domain, Serial: 1, Refresh: z.TTL, Retry: z.TTL, Expire: z.TTL, MinTTL: z.TTL},
	}
}
