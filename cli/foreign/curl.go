package foreign

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"dyno/lab/plan"
)

// BasicAuth is the value of Authorization that carries user:password (RFC 7617).
func BasicAuth(user string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(user)) }

// UserInURL is the value of Authorization for a user and a password as they stand in a URL.
func UserInURL(inURL string) string {
	user, password, _ := strings.Cut(inURL, ":")
	plain := func(text string) string {
		if decoded, err := url.PathUnescape(text); err == nil {
			return decoded
		}
		return text
	}
	return BasicAuth(plain(user) + ":" + plain(password))
}

// DialAddress returns where connections for an address go, by curl's options --connect-to and --resolve.
func DialAddress(address string, connectTo, resolve []string) (to string, faults []error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address, nil // the plan's validation says what is wrong with it
	}
	fault := func(flag, format string, args ...any) {
		faults = append(faults, fmt.Errorf("--"+flag+": "+format, args...))
	}
	applies := func(ofHost, ofPort string) bool {
		return (ofHost == "" || strings.EqualFold(ofHost, host)) && (ofPort == "" || ofPort == port)
	}
	toHost, toPort, found := host, port, len(connectTo) == 0
	for _, text := range connectTo {
		c, ok := cutConnection(text)
		switch {
		case !ok:
			fault("connect-to", "%q cannot be read; want host:port:host2:port2, such as example.com:443:127.0.0.1:8443", text)
			found = true
		case !found && applies(c[0], c[1]):
			toHost, toPort, found = cmp.Or(plan.Quote(c[2]), host), cmp.Or(c[3], port), true
		}
	}
	if !found {
		fault("connect-to", "none is for %s, where the URL goes; such as %s:127.0.0.1:8080", address, address)
	}
	host, port = toHost, toPort
	found = len(resolve) == 0
	for _, text := range resolve {
		ofHost, rest, _ := cutHost(strings.TrimPrefix(text, "+"))
		ofPort, ip, _ := strings.Cut(rest, ":")
		ip = strings.TrimSuffix(strings.TrimPrefix(ip, "["), "]")
		switch _, err := netip.ParseAddr(ip); {
		case strings.Contains(ip, ","):
			fault("resolve", "%q has several addresses; want one, as all connections go to the same", text)
			found = true
		case err != nil || ofHost == "" || !isPort(ofPort):
			fault("resolve", "%q cannot be read; want host:port:address, such as example.com:443:127.0.0.1; names instead of addresses are for --connect-to", text)
			found = true
		case !found && (applies(ofHost, ofPort) || ofHost == "*" && applies("", ofPort)):
			toHost, found = ip, true
		}
	}
	if !found {
		at := net.JoinHostPort(host, port)
		fault("resolve", "none is for %s, where connections go; such as %s:127.0.0.1", at, at)
	}
	return net.JoinHostPort(toHost, toPort), faults
}

// cutHost cuts a host, which has brackets around it if colons are in it, off what follows its
// colon.
func cutHost(text string) (host, rest string, ok bool) {
	if inner, isIPv6 := strings.CutPrefix(text, "["); isIPv6 {
		return strings.Cut(inner, "]:")
	}
	return strings.Cut(text, ":")
}

// cutConnection takes host:port:host2:port2 apart.
func cutConnection(text string) (parts [4]string, ok bool) {
	rest := text
	for _, at := range []int{0, 2} {
		if parts[at], rest, ok = cutHost(rest); !ok {
			return parts, false
		}
		if at == 0 {
			if parts[1], rest, ok = strings.Cut(rest, ":"); !ok {
				return parts, false
			}
		}
	}
	parts[3] = rest
	return parts, (parts[1] == "" || isPort(parts[1])) && (parts[3] == "" || isPort(parts[3]))
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}
