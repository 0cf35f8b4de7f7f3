package dns

import (
	"container/list"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const domain = "control.internal."

// zone has a few services.
func zone() *Zone {
	many := make([]Endpoint, 100)
	for i := range many {
		many[i] = Endpoint{fmt.Sprintf("10.0.1.%d", i), 80, 100}
	}
	services := map[string][]Endpoint{
		"default/shop": {{"10.0.0.1", 80, 100}, {"10.0.0.1", 81, 50}, {"2001:db8::1", 80, 100}, {"host.example", 8080, 1}},
		"other/a.b":    {{"10.0.0.2", 1, 1}},
		"default/many": many,
		"default/none": {},
		"heavy/shop":   {{"10.0.0.1", 80, 1_000_000}, {"10.0.0.2", 80, 500_000}, {"10.0.0.3", 80, 1}},
	}
	tagged := map[string][]Endpoint{
		"default/shop v2":  {{"10.0.0.1", 80, 100}},
		"default/shop a.b": {{"10.0.0.1", 81, 50}},
		"other/a.b v2":     {{"10.0.0.2", 1, 1}},
		"both/b a":         {{"10.0.0.9", 1, 1}},
		"dc1/shop v2":      {{"10.0.0.7", 7, 1}},
	}
	services["both/b"], services["both/a.b"], services["dc1/shop"] = tagged["both/b a"], services["other/a.b"], tagged["dc1/shop v2"]
	return &Zone{Domain: domain, Consul: "consul.", Namespace: "default", Datacenter: "dc1", TTL: 5, Find: func(namespace, service, tag string) ([]Endpoint, bool) {
		if tag == "" {
			list, ok := services[namespace+"/"+service]
			return slices.Clone(list), ok
		}
		key := namespace + "/" + service + " "
		list, ok := tagged[key+tag]
		for name := range tagged {
			ok = ok || strings.HasPrefix(name, key) && strings.HasSuffix(name, "."+tag)
		}
		return slices.Clone(list), ok
	}, Below: func(namespace, ending string) bool {
		for name := range services {
			if strings.HasPrefix(name, namespace+"/") && (ending == "" || strings.HasSuffix(name, "."+ending)) {
				return true
			}
		}
		return false
	}}
}

// ask packs a question, sends it through a zone, and reads the answer.
func ask(t *testing.T, z *Zone, name string, kind dnsmessage.Type, tcp bool, udp uint16) dnsmessage.Message {
	t.Helper()
	q := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	if udp > 0 {
		var h dnsmessage.ResourceHeader
		if err := h.SetEDNS0(int(udp), 0, false); err != nil {
			t.Fatal(err)
		}
		q.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{}}}
	}
	packed, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	raw := z.Answer(packed, tcp)
	if limit := max(plainSize, int(min(udp, mostSize))); !tcp && len(raw) > limit {
		t.Errorf("%s: %d bytes, %d at most", name, len(raw), limit)
	}
	var m dnsmessage.Message
	if err := m.Unpack(raw); err != nil {
		t.Fatal(err)
	}
	if m.ID != 7 || !m.Response || !m.RecursionDesired || m.RecursionAvailable || len(m.Questions) != 1 {
		t.Errorf("%s: %+v", name, m.Header)
	}
	return m
}

// records are those of a section, as text.
func records(list []dnsmessage.Resource) (texts []string) {
	for _, r := range list {
		switch b := r.Body.(type) {
		case *dnsmessage.AResource:
			texts = append(texts, net.IP(b.A[:]).String())
		case *dnsmessage.AAAAResource:
			texts = append(texts, net.IP(b.AAAA[:]).String())
		case *dnsmessage.SRVResource:
			texts = append(texts, fmt.Sprintf("%s:%d %d", strings.TrimSuffix(b.Target.String(), "."+domain), b.Port, b.Weight))
		case *dnsmessage.SOAResource:
			texts = append(texts, "SOA")
		}
	}
	slices.Sort(texts)
	return texts
}

func TestAnswer(t *testing.T) {
	srv := []string{"0a000001.addr:80 100", "0a000001.addr:81 50", "20010db8000000000000000000000001.addr:80 100", "host.example.:8080 1"}
	for _, c := range []struct {
		name  string
		kind  dnsmessage.Type
		code  dnsmessage.RCode
		want  []string
		extra []string
	}{
		{"shop.default." + domain, dnsmessage.TypeA, 0, []string{"10.0.0.1"}, nil},
		{"SHOP.Default.Control.Internal.", dnsmessage.TypeA, 0, []string{"10.0.0.1"}, nil},
		{"shop.default." + domain, dnsmessage.TypeAAAA, 0, []string{"2001:db8::1"}, nil},
		{"shop.default." + domain, dnsmessage.TypeSRV, 0, srv, []string{"10.0.0.1", "2001:db8::1"}},
		{"_shop._tcp.default." + domain, dnsmessage.TypeSRV, 0, srv, []string{"10.0.0.1", "2001:db8::1"}},
		{"_shop._tcp.default." + domain, dnsmessage.TypeA, 0, []string{"10.0.0.1"}, nil},
		{"shop.default." + domain, dnsmessage.TypeTXT, 0, nil, nil},
		{"a.b.other." + domain, dnsmessage.TypeA, 0, []string{"10.0.0.2"}, nil},
		{"none.default." + domain, dnsmessage.TypeA, 0, nil, nil},
		{"unknown.default." + domain, dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, nil},
		{"0a000001.addr." + domain, dnsmessage.TypeA, 0, []string{"10.0.0.1"}, nil},
		{"0a000001.addr." + domain, dnsmessage.TypeAAAA, 0, nil, nil},
		{"0a00.addr." + domain, dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, nil},
		{"x.0a000001.addr." + domain, dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, nil},
		{domain, dnsmessage.TypeSOA, 0, []string{"SOA"}, nil},
		{domain, dnsmessage.TypeALL, 0, []string{"SOA"}, nil},
		{domain, dnsmessage.TypeA, 0, nil, nil},
		{domain, typeAXFR, dnsmessage.RCodeRefused, nil, nil},
		// What has names below it exists, and nothing else.
		{"default." + domain, dnsmessage.TypeA, 0, nil, nil},
		{"DEFAULT." + domain, dnsmessage.TypeAAAA, 0, nil, nil},
		{"_tcp.default." + domain, dnsmessage.TypeSRV, 0, nil, nil},
		{"addr." + domain, dnsmessage.TypeA, 0, nil, nil},
		{"b.other." + domain, dnsmessage.TypeA, 0, nil, nil},
		{"b._tcp.other." + domain, dnsmessage.TypeSRV, 0, nil, nil},
		{"_a.b._tcp.other." + domain, dnsmessage.TypeSRV, 0, []string{"0a000002.addr:1 1"}, []string{"10.0.0.2"}},
		{"nowhere." + domain, dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, nil},
		{"shop." + domain, dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, nil},
		{"_tcp." + domain, dnsmessage.TypeSRV, dnsmessage.RCodeNameError, nil, nil},
		{"_tcp.nowhere." + domain, dnsmessage.TypeSRV, dnsmessage.RCodeNameError, nil, nil},
		{"_shop._tcp.nowhere." + domain, dnsmessage.TypeSRV, dnsmessage.RCodeNameError, nil, nil},
		{"shop._tcp.default." + domain, dnsmessage.TypeSRV, dnsmessage.RCodeNameError, nil, nil},
		{"a.other." + domain, dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, nil},
		{"x.shop.default." + domain, dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, nil},
		// Weights are in proportion, in 16 bits.
		{"shop.heavy." + domain, dnsmessage.TypeSRV, 0, []string{"0a000001.addr:80 65535", "0a000002.addr:80 32768", "0a000003.addr:80 1"}, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}},
		// Tags, in both forms. A service whose name has a dot goes first.
		{"v2.shop.default." + domain, dnsmessage.TypeSRV, 0, []string{"0a000001.addr:80 100"}, []string{"10.0.0.1"}},
		{"V2.Shop.default." + domain, dnsmessage.TypeA, 0, []string{"10.0.0.1"}, nil},
		{"v2.shop.default." + domain, dnsmessage.TypeAAAA, 0, nil, nil},
		{"a.b.shop.default." + domain, dnsmessage.TypeSRV, 0, []string{"0a000001.addr:81 50"}, []string{"10.0.0.1"}},
		{"b.shop.default." + domain, dnsmessage.TypeA, 0, nil, nil},
		{"a.shop.default." + domain, dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, nil},
		{"a.b.both." + domain, dnsmessage.TypeSRV, 0, []string{"0a000002.addr:1 1"}, []string{"10.0.0.2"}},
		{"v2.a.b.other." + domain, dnsmessage.TypeA, 0, []string{"10.0.0.2"}, nil},
		{"_shop._v2.default." + domain, dnsmessage.TypeSRV, 0, []string{"0a000001.addr:80 100"}, []string{"10.0.0.1"}},
		{"_a.b._v2.other." + domain, dnsmessage.TypeSRV, 0, []string{"0a000002.addr:1 1"}, []string{"10.0.0.2"}},
		{"_shop._v3.default." + domain, dnsmessage.TypeSRV, dnsmessage.RCodeNameError, nil, nil},
		{"_v3.default." + domain, dnsmessage.TypeSRV, 0, nil, nil},
		{"v2.none.default." + domain, dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, nil},
		// Names of Consul's form.
		{"many.service.consul.", dnsmessage.TypeSOA, 0, nil, nil},
		{"shop.service.consul.", dnsmessage.TypeA, 0, []string{"10.0.0.1"}, nil},
		{"SHOP.Service.Consul.", dnsmessage.TypeAAAA, 0, []string{"2001:db8::1"}, nil},
		{"shop.service.dc1.consul.", dnsmessage.TypeA, 0, []string{"10.0.0.1"}, nil},
		{"shop.service.dc1.dc.consul.", dnsmessage.TypeA, 0, []string{"10.0.0.1"}, nil},
		{"shop.service.dc1.ns.consul.", dnsmessage.TypeA, 0, []string{"10.0.0.7"}, nil},
		{"shop.service.dc1.ns.dc1.dc.consul.", dnsmessage.TypeA, 0, []string{"10.0.0.7"}, nil},
		{"shop.service.dc2.consul.", dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, nil},
		{"shop.service.dc2.dc.consul.", dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, nil},
		{"v2.shop.service.consul.", dnsmessage.TypeSRV, 0, []string{"0a000001.addr.consul.:80 100"}, []string{"10.0.0.1"}},
		{"_shop._tcp.service.consul.", dnsmessage.TypeA, 0, []string{"10.0.0.1"}, nil},
		{"_shop._v2.service.dc1.consul.", dnsmessage.TypeSRV, 0, []string{"0a000001.addr.consul.:80 100"}, []string{"10.0.0.1"}},
		{"0a000001.addr.consul.", dnsmessage.TypeA, 0, []string{"10.0.0.1"}, nil},
		{"0a000001.addr.dc1.consul.", dnsmessage.TypeA, 0, []string{"10.0.0.1"}, nil},
		{"none.service.consul.", dnsmessage.TypeA, 0, nil, nil},
		{"unknown.service.consul.", dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, nil},
		{"shop.consul.", dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, nil},
		{"shop.node.consul.", dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, nil},
		{"shop.default.consul.", dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, nil},
		{"shop.service.nowhere.ns.consul.", dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, nil},
		{"consul.", dnsmessage.TypeSOA, 0, []string{"SOA"}, nil},
		{"service.consul.", dnsmessage.TypeA, 0, nil, nil},
		{"service.dc1.consul.", dnsmessage.TypeA, 0, nil, nil},
		{"_tcp.service.consul.", dnsmessage.TypeA, 0, nil, nil},
		{"addr.consul.", dnsmessage.TypeA, 0, nil, nil},
		{"dc1.consul.", dnsmessage.TypeA, 0, nil, nil},
		{"dc1.dc.consul.", dnsmessage.TypeA, 0, nil, nil},
		{"dc.consul.", dnsmessage.TypeA, 0, nil, nil},
		{"ns.consul.", dnsmessage.TypeA, 0, nil, nil},
		{"other.ns.consul.", dnsmessage.TypeA, 0, nil, nil},
		{"nowhere.ns.consul.", dnsmessage.TypeA, dnsmessage.RCodeNameError, nil, nil},
		{"xconsul.", dnsmessage.TypeA, dnsmessage.RCodeRefused, nil, nil},
		{"example.org.", dnsmessage.TypeA, dnsmessage.RCodeRefused, nil, nil},
		{"xcontrol.internal.", dnsmessage.TypeA, dnsmessage.RCodeRefused, nil, nil},
	} {
		for _, tcp := range []bool{false, true} {
			m := ask(t, zone(), c.name, c.kind, tcp, 0)
			if m.RCode != c.code || !slices.Equal(records(m.Answers), c.want) || !slices.Equal(records(m.Additionals), c.extra) {
				t.Errorf("%s %v: %v, %q, %q; want %v, %q, %q", c.name, c.kind, m.RCode, records(m.Answers), records(m.Additionals), c.code, c.want, c.extra)
			}
			mine := c.code != dnsmessage.RCodeRefused
			if soa := len(m.Authorities) == 1; m.Authoritative != mine || soa != (mine && c.want == nil) {
				t.Errorf("%s %v: authoritative %v, authorities %v", c.name, c.kind, m.Authoritative, m.Authorities)
			}
		}
	}
}

// TestSizes: over UDP an answer has what fits, and says where that is not all; TCP has all of it.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		udp     uint16
		tcp     bool
		answers int // of 16 bytes each, behind a head and a question of 12 and 35, and 11 of EDNS(0)
	}{{0, false, 29}, {100, false, 28}, {1232, false, 73}, {65535, false, 73}, {0, true, 100}, {1232, true, 100}} {
		m := ask(t, zone(), "many.default."+domain, dnsmessage.TypeA, c.tcp, c.udp)
		if m.Truncated != (c.answers < 100) || len(m.Answers) != c.answers {
			t.Errorf("%+v: truncated %v, %d answers", c, m.Truncated, len(m.Answers))
		}
		opt := len(m.Additionals) == 1 && m.Additionals[0].Header.Type == dnsmessage.TypeOPT
		if opt != (c.udp > 0) {
			t.Errorf("%+v: additionals %v", c, m.Additionals)
		}
	}
	// Addresses are left out before services are.
	if m := ask(t, zone(), "shop.default."+domain, dnsmessage.TypeSRV, false, 0); m.Truncated || len(m.Answers) != 4 {
		t.Errorf("%v", m.Header)
	}
}

// TestEDNS: a query has one OPT record, of version 0. Options that nobody here knows change nothing.
func TestEDNS(t *testing.T) {
	opt := func(change func(*dnsmessage.ResourceHeader, *dnsmessage.OPTResource)) dnsmessage.Resource {
		var h dnsmessage.ResourceHeader
		body := &dnsmessage.OPTResource{}
		if err := h.SetEDNS0(mostSize, 0, false); err != nil {
			t.Fatal(err)
		}
		change(&h, body)
		return dnsmessage.Resource{Header: h, Body: body}
	}
	plain := opt(func(*dnsmessage.ResourceHeader, *dnsmessage.OPTResource) {})
	for name, c := range map[string]struct {
		records []dnsmessage.Resource
		want    dnsmessage.RCode
		opt     bool
		dnssec  bool
	}{
		"none":  {nil, 0, false, false},
		"plain": {[]dnsmessage.Resource{plain}, 0, true, false},
		"with options": {[]dnsmessage.Resource{opt(func(_ *dnsmessage.ResourceHeader, o *dnsmessage.OPTResource) {
			o.Options = []dnsmessage.Option{{Code: 65001, Data: []byte("x")}, {Code: 10, Data: make([]byte, 8)}}
		})}, 0, true, false},
		"with DO":     {[]dnsmessage.Resource{opt(func(h *dnsmessage.ResourceHeader, _ *dnsmessage.OPTResource) { h.TTL |= 1 << 15 })}, 0, true, true},
		"with a flag": {[]dnsmessage.Resource{opt(func(h *dnsmessage.ResourceHeader, _ *dnsmessage.OPTResource) { h.TTL |= 1 })}, 0, true, false},
		"version 1":   {[]dnsmessage.Resource{opt(func(h *dnsmessage.ResourceHeader, _ *dnsmessage.OPTResource) { h.TTL |= 1 << 16 })}, badVersion, true, false},
		"version 255": {[]dnsmessage.Resource{opt(func(h *dnsmessage.ResourceHeader, _ *dnsmessage.OPTResource) { h.TTL |= 255 << 16 })}, badVersion, true, false},
		"twice":       {[]dnsmessage.Resource{plain, plain}, dnsmessage.RCodeFormatError, true, false},
		"of a name":   {[]dnsmessage.Resource{opt(func(h *dnsmessage.ResourceHeader, _ *dnsmessage.OPTResource) { h.Name = dnsmessage.MustNewName(domain) })}, dnsmessage.RCodeFormatError, false, false},
	} {
		q := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("shop.default." + domain), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}, Additionals: c.records}
		packed, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		var got dnsmessage.Message
		if err := got.Unpack(zone().Answer(packed, false)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		code := got.RCode
		for _, r := range got.Additionals {
			code = r.Header.ExtendedRCode(got.RCode)
			if version := r.Header.TTL >> 16 & 0xff; version != 0 || r.Header.DNSSECAllowed() != c.dnssec || r.Header.TTL&0x7fff != 0 {
				t.Errorf("%s: OPT has %x", name, r.Header.TTL)
			}
		}
		if answers := len(got.Answers); code != c.want || (answers > 0) != (c.want == 0) || (len(got.Additionals) == 1) != c.opt {
			t.Errorf("%s: code %v, %d answers, %v", name, code, answers, got.Additionals)
		}
	}
}

// What is no query has no answer, or one that says why.
func TestFaults(t *testing.T) {
	q := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(domain), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	for name, c := range map[string]struct {
		change func(*dnsmessage.Message)
		want   dnsmessage.RCode
		none   bool
	}{
		"an answer":       {func(m *dnsmessage.Message) { m.Response = true }, 0, true},
		"an update":       {func(m *dnsmessage.Message) { m.OpCode = 5 }, dnsmessage.RCodeNotImplemented, false},
		"no question":     {func(m *dnsmessage.Message) { m.Questions = nil }, dnsmessage.RCodeFormatError, false},
		"two questions":   {func(m *dnsmessage.Message) { m.Questions = append(m.Questions, m.Questions[0]) }, dnsmessage.RCodeFormatError, false},
		"another class":   {func(m *dnsmessage.Message) { m.Questions[0].Class = dnsmessage.ClassCHAOS }, dnsmessage.RCodeRefused, false},
		"nothing but one": {func(*dnsmessage.Message) {}, 0, false},
	} {
		m := q
		m.Questions = slices.Clone(q.Questions)
		c.change(&m)
		packed, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		raw := zone().Answer(packed, false)
		var got dnsmessage.Message
		if err := got.Unpack(raw); (err != nil) != c.none || err == nil && got.RCode != c.want {
			t.Errorf("%s: %v, %v; want %v", name, got.RCode, err, c.want)
		}
	}
	for _, d := range []string{"", ".", "a", "a..b.", ".a.", "A.internal.", strings.Repeat("a.", 60), strings.Repeat("a", 64) + "."} {
		if CheckDomain(d) == nil {
			t.Errorf("%q is a domain", d)
		}
	}
	if err := CheckDomain(domain); err != nil {
		t.Error(err)
	}
}

func FuzzAnswer(f *testing.F) {
	for _, name := range []string{"shop.default." + domain, "_shop._tcp.default." + domain, "v2.shop.service.dc1.ns.dc1.dc.consul.", domain, "x."} {
		q := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeSRV, Class: dnsmessage.ClassINET}}}
		packed, err := q.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
	}
	z := zone()
	f.Fuzz(func(t *testing.T, query []byte) {
		answer := z.Answer(query, false)
		if len(answer) > mostSize {
			t.Errorf("%x: %d bytes", query, len(answer))
		}
		var m dnsmessage.Message
		if err := m.Unpack(answer); answer != nil && (err != nil || !m.Response) {
			t.Errorf("%x: %x: %v", query, answer, err)
		}
		if answer := z.Answer(query, true); len(answer) > maxTCP {
			t.Errorf("%x: %d bytes over TCP", query, len(answer))
		}
	})
}

// listen returns listeners of UDP and TCP that have one port. The kernel names a port that is free
// for UDP; another program may have it for TCP.
func listen(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for try := 1; ; try++ {
		packet, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		stream, err := net.Listen("tcp", packet.LocalAddr().String())
		if err == nil {
			return packet, stream
		}
		packet.Close()
		if try == 10 {
			t.Fatal(err)
		}
	}
}

// TestServer: Go's resolver and dig find services, by UDP, and by TCP where there are many.
func TestServer(t *testing.T) {
	packet, stream := listen(t)
	address := packet.LocalAddr().String()
	s := NewServer(zone(), packet, stream)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	if got, err := resolver.LookupHost(ctx, "shop.default."+domain); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := resolver.LookupHost(ctx, "many.default."+domain); err != nil || len(got) != 100 {
		t.Errorf("many: %d, %v", len(got), err)
	}
	if _, got, err := resolver.LookupSRV(ctx, "shop", "tcp", "default."+domain); err != nil || len(got) != 4 {
		t.Errorf("SRV: %v, %v", got, err)
	}
	if dig, err := exec.LookPath("dig"); err == nil {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ args, want string }{
			{"+short shop.default." + domain, "10.0.0.1\n"}, {"shop.default." + domain, "status: NOERROR"}, {"nowhere." + domain, "status: NXDOMAIN"},
			{"+edns=1 +noednsneg " + domain, "status: BADVERS"}, {"+opcode=status " + domain, "status: NOTIMP"}, {"+dnssec " + domain, "flags: do;"},
			{"-c CH -t TXT version.bind", "status: REFUSED"}, {"axfr " + domain, "Transfer failed"}, {"+bufsize=100 many.default." + domain, "ANSWER: 100,"},
			{"+short v2.shop.service.consul SRV", "0 100 80 0a000001.addr.consul.\n"}, {"shop.service.dc2.consul", "status: NXDOMAIN"}, {"none.service.consul", "status: NOERROR"},
		} {
			out, err := exec.CommandContext(ctx, dig, append([]string{"@" + host, "-p", port}, strings.Fields(c.args)...)...).Output()
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("dig %s: %s, %v; want %q", c.args, out, err, c.want)
			}
		}
	} else {
		t.Log("no dig here")
	}
	// One who says nothing is cut off at the end, and holds nobody up.
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if cut := s.Close(ctx); cut != 0 {
		t.Error("cut")
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestForwarded: programs behind a resolver that forwards both domains find services, and no others.
func TestForwarded(t *testing.T) {
	program, err := exec.LookPath("dnsmasq")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/dnsmasq"); err != nil {
			t.Skip("no dnsmasq: scripts/setup.sh installs it")
		}
	}
	packet, stream := listen(t)
	s := NewServer(zone(), packet, stream)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve() }()
	host, port, err := net.SplitHostPort(packet.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	free, other := listen(t)
	own := free.LocalAddr().(*net.UDPAddr).Port
	free.Close()
	other.Close()
	to := host + "#" + port
	cmd := exec.CommandContext(ctx, program, "--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--bind-interfaces", "--listen-address="+host, //nolint:gosec // a test's own
		fmt.Sprint("--port=", own), "--server=/consul/"+to, "--server=/"+strings.TrimSuffix(domain, ".")+"/"+to)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, fmt.Sprint(host, ":", own))
	}}
	got, err := resolver.LookupHost(ctx, "shop.service.consul.")
	for ; err != nil && ctx.Err() == nil; got, err = resolver.LookupHost(ctx, "shop.service.consul.") { // it starts
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	if len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := resolver.LookupHost(ctx, "many.default."+domain); err != nil || len(got) != 100 {
		t.Errorf("many: %d, %v", len(got), err)
	}
	if _, got, err := resolver.LookupSRV(ctx, "shop", "v2", "service.consul."); err != nil || len(got) != 1 || got[0].Target != "0a000001.addr.consul." {
		t.Errorf("SRV: %v, %v", got, err)
	}
	var none *net.DNSError
	if got, err := resolver.LookupHost(ctx, "unknown.service.consul."); !errors.As(err, &none) || !none.IsNotFound {
		t.Errorf("unknown: %v, %v", got, err)
	}
	cancel()
	_ = cmd.Wait() // it was ended
	s.Close(t.Context())
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.Log(said.String())
	}
}

// TestIdleConnections: a client that holds all permitted connections keeps nobody out, not even at its own address.
func TestIdleConnections(t *testing.T) {
	packet, stream := listen(t)
	address := packet.LocalAddr().String()
	s := NewServer(zone(), packet, stream)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dial := func() net.Conn {
		t.Helper()
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	question := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("many.default." + domain), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	query, err := question.Pack()
	if err != nil {
		t.Fatal(err)
	}
	asks := func(c net.Conn) {
		t.Helper()
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)); err != nil {
			t.Fatal(err)
		}
		var size [2]byte
		_, err := io.ReadFull(c, size[:])
		answer := make([]byte, binary.BigEndian.Uint16(size[:]))
		if err == nil {
			_, err = io.ReadFull(c, answer)
		}
		var m dnsmessage.Message
		if err == nil {
			err = m.Unpack(answer)
		}
		if err != nil || len(m.Answers) != 100 {
			t.Fatalf("%d answers, %v", len(m.Answers), err)
		}
	}
	mine := dial()
	for i := range maxConnections + maxOfNetwork {
		if i%(maxOfNetwork/4) == 0 {
			asks(dial()) // all before it are accepted
			asks(mine)
		}
		if _, err := dial().Write([]byte{0}); err != nil { // half a length
			t.Fatal(err)
		}
	}
	asks(mine)
	asks(dial())
	s.Close(ctx)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A from is a connection from an address, which tells when it is closed.
type from struct {
	net.Conn
	address net.Addr
	closed  bool
}

func (f *from) RemoteAddr() net.Addr { return f.address }
func (f *from) Close() error         { f.closed = true; return nil }

// TestIdlest: where there would be too many connections, the idlest is closed: of the same network,
// or of all.
func TestIdlest(t *testing.T) {
	s := &Server{}
	add := func(address string) (*from, *list.Element) {
		t.Helper()
		tcp, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		f := &from{address: tcp}
		return f, s.add(f)
	}
	other, _ := add("192.0.2.1:1")
	first, _ := add("[2001:db8::1]:1")
	second, asking := add("[2001:db8::2]:1")
	third, _ := add("[2001:db8::3]:1")
	for range maxOfNetwork - 3 {
		add("[2001:db8::ffff]:1")
	}
	if first.closed || other.closed {
		t.Error("closed, though there was room")
	}
	s.asked(asking)
	add("[2001:db8::4]:1")
	add("[2001:db8::5]:1")
	if !first.closed || second.closed || !third.closed || other.closed {
		t.Errorf("one network: closed %v, %v, %v, another's %v", first.closed, second.closed, third.closed, other.closed)
	}
	for i := 0; s.connections.Len() < maxConnections; i++ {
		add(fmt.Sprintf("198.51.100.%d:1", i))
	}
	if other.closed {
		t.Error("closed, though there was room")
	}
	add("203.0.113.1:1")
	if !other.closed || s.connections.Len() != maxConnections {
		t.Errorf("all: closed %v, there are %d", other.closed, s.connections.Len())
	}
}

// TestManyInstances: over TCP an answer has what fits into 64 KiB, a random part each time. It is not marked as
// truncated: resolvers would discard it.
func TestManyInstances(t *testing.T) {
	list := make([]Endpoint, 1000)
	for i := range list {
		list[i] = Endpoint{fmt.Sprintf("2001:db8::%x", i), 80, 100}
	}
	z := &Zone{Domain: domain, TTL: 5, Find: func(string, string, string) ([]Endpoint, bool) { return slices.Clone(list), true }, Below: func(string, string) bool { return false }}
	m := ask(t, z, "shop.default."+domain, dnsmessage.TypeSRV, true, 0)
	if n := len(m.Answers); m.Truncated || n < 500 || n == len(list) {
		t.Errorf("over TCP: truncated %v, %d answers", m.Truncated, n)
	}
	if m := ask(t, z, "shop.default."+domain, dnsmessage.TypeAAAA, true, 0); len(m.Answers) != len(list) {
		t.Errorf("addresses: %d", len(m.Answers))
	}
	if m := ask(t, z, "shop.default."+domain, dnsmessage.TypeSRV, false, 0); !m.Truncated || len(m.Answers) == 0 {
		t.Errorf("over UDP: truncated %v, %d answers", m.Truncated, len(m.Answers))
	}
	again := ask(t, z, "shop.default."+domain, dnsmessage.TypeSRV, true, 0)
	if slices.Equal(records(m.Answers), records(again.Answers)) {
		t.Error("the same instances are told each time, and others never")
	}
}
