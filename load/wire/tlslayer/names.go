package tlslayer

import (
	"crypto/tls"
	"slices"
	"strings"
)

// versions are the versions spoken, by the names that options use.
var versions = []struct {
	name string
	id   uint16
}{{"1.2", tls.VersionTLS12}, {"1.3", tls.VersionTLS13}}

// groups are the key exchange groups that can be chosen, by IANA's names.
var groups = []struct {
	name string
	id   tls.CurveID
}{
	{"X25519MLKEM768", tls.X25519MLKEM768},
	{"SecP256r1MLKEM768", tls.SecP256r1MLKEM768},
	{"SecP384r1MLKEM1024", tls.SecP384r1MLKEM1024},
	{"x25519", tls.X25519},
	{"secp256r1", tls.CurveP256},
	{"secp384r1", tls.CurveP384},
	{"secp521r1", tls.CurveP521},
}

// otherGroupNames are what OpenSSL calls some groups.
var otherGroupNames = map[string]string{"p-256": "secp256r1", "prime256v1": "secp256r1", "p-384": "secp384r1", "p-521": "secp521r1"}

// groupName returns a group's name; "" for none and for one that cannot be chosen.
func groupName(id tls.CurveID) string {
	for _, g := range groups {
		if g.id == id {
			return g.name
		}
	}
	return ""
}

// groupByName finds a group by IANA's name or OpenSSL's, in any case.
func groupByName(name string) (tls.CurveID, bool) {
	if other, ok := otherGroupNames[strings.ToLower(name)]; ok {
		name = other
	}
	for _, g := range groups {
		if strings.EqualFold(g.name, name) {
			return g.id, true
		}
	}
	return 0, false
}

// groupNames returns the names of the groups that Config.Groups may hold.
func groupNames() (names []string) {
	for _, g := range groups {
		names = append(names, g.name)
	}
	return names
}

// cipherSuiteNames returns the names of the suites that Config.CipherSuites may hold: TLS 1.2 suites,
// safe ones first.
func cipherSuiteNames() (names []string) {
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if slices.Contains(s.SupportedVersions, tls.VersionTLS12) {
			names = append(names, s.Name)
		}
	}
	return names
}

// suiteByName finds a suite by IANA's name or OpenSSL's.
func suiteByName(name string) *tls.CipherSuite {
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if s.Name == name || openSSLName(s.Name) == name {
			return s
		}
	}
	return nil
}

// openSSLName translates IANA's name of a suite for TLS 1.2 into OpenSSL's. That of a
// suite for TLS 1.3 is the same in both.
func openSSLName(iana string) string {
	if !strings.Contains(iana, "_WITH_") {
		return iana
	}
	name := strings.TrimPrefix(iana, "TLS_")
	name = strings.TrimPrefix(strings.Replace(name, "_WITH_", "_", 1), "RSA_")
	return strings.NewReplacer(
		"CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305",
		"3DES_EDE_CBC", "DES-CBC3",
		"RC4_128", "RC4",
		"AES_", "AES",
		"_CBC_", "-",
		"_", "-",
	).Replace(name)
}
