package outward

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestCheck(t *testing.T) {
	var closed Policy
	for _, text := range []string{
		"127.0.0.1", "127.8.8.8", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1", "100.64.0.1", "169.254.169.254",
		"0.0.0.0", "0.1.2.3", "224.0.0.1", "239.255.255.255", "255.255.255.255", "192.0.2.1", "198.18.0.1", "240.0.0.1",
		"::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "fec0::1",
		// IPv4 inside IPv6.
		"::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::1", "::127.0.0.1",
		"2001:0:4136:e378:8000:63bf:3fff:fdd2", // Teredo
	} {
		if err := closed.Check(netip.MustParseAddr(text)); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::808:808", "2002:808:808::1"} {
		if err := closed.Check(netip.MustParseAddr(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	networks, err := ParseNetworks([]string{"127.0.0.0/8", "10.1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	open := Policy{Allow: networks}
	for text, allowed := range map[string]bool{
		"127.0.0.1": true, "::ffff:127.0.0.1": true, "64:ff9b::127.0.0.1": true, "10.1.2.3": true, "10.1.2.4": false, "::1": false, "169.254.169.254": false,
	} {
		if err := open.Check(netip.MustParseAddr(text)); (err == nil) != allowed {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ParseNetworks([]string{"10.0.0.0/33", "x", "1.1.1.1"}); err == nil || strings.Count(err.Error(), "want a network") != 2 {
		t.Errorf("not reported: %v", err)
	}
}

func TestCheckURL(t *testing.T) {
	var closed Policy
	for text, want := range map[string]string{
		"file:///etc/passwd":           "must begin with http",
		"gopher://example.org/":        "must begin with http",
		"//example.org/":               "must begin with http",
		"http:///x":                    "has no host",
		"http://u:p@example.org/":      "no user",
		"http://example.org/#x":        "no fragment",
		"http://exa mple.org/":         "want a URL",
		"http://127.0.0.1/":            "not public",
		"http://127.0.0.1:6379/":       "not public",
		"http://[::1]:80/":             "not public",
		"http://[::ffff:10.0.0.1]/":    "not public",
		"http://localhost/":            "not public",
		"http://LOCALHOST./":           "not public",
		"http://x.localhost:80/":       "not public",
		"http://169.254.169.254/meta":  "not public",
		"https://example.org/v1?x=y":   "",
		"http://example.org:8080/":     "",
		"http://2130706433.example/":   "",
		"https://[2606:4700::1111]/v1": "",
	} {
		err := closed.CheckURL(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestRequireTLSOrAllowlist: what carries a secret, or is believed, goes to the public internet by TLS only.
func TestRequireTLSOrAllowlist(t *testing.T) {
	networks, err := ParseNetworks([]string{"127.0.0.0/8", "1.0.0.0/24"})
	if err != nil {
		t.Fatal(err)
	}
	p := Policy{Allow: networks}
	for text, allowed := range map[string]bool{
		"https://8.8.8.8/keys": true, "http://8.8.8.8/keys": false, "HTTP://8.8.8.8/keys": false, "http://[2606:4700:4700::1111]/": false, "http://[64:ff9b::808:808]/": false,
		"http://127.0.0.1/keys": true, "http://localhost/keys": true, "http://1.0.0.1/": true, "https://10.0.0.1/": false, "http://10.0.0.1/": false,
		"http://example.com/keys": true, // a name is looked up when it is called
	} {
		if err := p.RequireTLSOrAllowlist(text).CheckURL(text); (err == nil) != allowed || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", text, err)
		}
	}
	// Whatever a name resolves to.
	if err := p.RequireTLSOrAllowlist("http://example.com/").control(t.Context(), "tcp", "93.184.216.34:80", nil); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "use https://") {
		t.Errorf("%v", err)
	}
	if err := p.RequireTLSOrAllowlist("https://example.com/").control(t.Context(), "tcp", "93.184.216.34:443", nil); err != nil {
		t.Error(err)
	}
}
