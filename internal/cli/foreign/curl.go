package foreign

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/netip"
	"net/textproto"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"dyno/lab/plan"
)

// BasicAuth is the header field that carries user:password (RFC 7617).
func BasicAuth(user string) plan.Header {
	return plan.Header{Name: "Authorization", Value: "Basic " + base64.StdEncoding.EncodeToString([]byte(user))}
}

// UserInURL is the header field for a user and a password as they stand in a URL.
func UserInURL(inURL string) plan.Header {
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

// formOption is what follows a field's value, as in curl.
var formOption = regexp.MustCompile(`;(type|filename)=`)

// EncodeForm encodes the fields of a form, which are written as curl has them, and returns its
// content type.
func EncodeForm(fields []string, boundary string, read func(string) (string, error)) (body, kind string, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(boundary); err != nil {
		return "", "", err
	}
	for _, field := range fields {
		if err := addField(w, field, read); err != nil {
			return "", "", err
		}
	}
	err = w.Close()
	return b.String(), w.FormDataContentType(), err
}

func addField(w *multipart.Writer, field string, read func(string) (string, error)) (err error) {
	name, value, found := strings.Cut(field, "=")
	if !found || name == "" {
		return errors.New("a field without a name or =; want name=value or name=@FILE")
	}
	value, options := cutOptions(value)
	file, isFile := strings.CutPrefix(value, "@")
	text, isText := strings.CutPrefix(value, "<")
	filename, isNamed := options["filename"]
	switch {
	case isFile && file == "" || isText && text == "":
		return fmt.Errorf("%s: no file is named; want %s=@FILE", name, name)
	case isFile:
		if value, err = read(file); !isNamed {
			filename = filepath.Base(file)
		}
	case isText:
		value, err = read(text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	h := textproto.MIMEHeader{"Content-Disposition": {multipart.FileContentDisposition(name, filename)}}
	if !isFile && !isNamed {
		h["Content-Disposition"][0] = strings.TrimSuffix(h["Content-Disposition"][0], `; filename=""`)
	}
	kind := options["type"]
	if isFile {
		kind = cmp.Or(kind, mime.TypeByExtension(filepath.Ext(filename)), "application/octet-stream")
	}
	if strings.ContainsAny(kind, "\r\n") {
		return fmt.Errorf("%s: the type holds a line break; remove it", name)
	}
	if kind != "" {
		h.Set("Content-Type", kind)
	}
	part, err := w.CreatePart(h)
	if err == nil {
		_, err = io.WriteString(part, value)
	}
	return err
}

// cutOptions takes ;type= and ;filename= off a field's value.
func cutOptions(value string) (string, map[string]string) {
	options := map[string]string{}
	all := formOption.FindAllStringSubmatchIndex(value, -1)
	for i := len(all) - 1; i >= 0; i-- {
		options[value[all[i][2]:all[i][3]]] = value[all[i][1]:]
		value = value[:all[i][0]]
	}
	return value, options
}
