package arguments

import (
	"net"
	"os"
	"strconv"
	"strings"
)

// IsURL reports whether an argument is the URL of an HTTP server and not a file.
func IsURL(arg string) bool {
	return strings.HasPrefix(arg, "http://") || strings.HasPrefix(arg, "https://")
}

// IsAddress reports whether an argument can only be an address, and no file here has that name.
// An address is a host and a port, or a host after a user and a password. A path may follow.
func IsAddress(arg string) bool {
	authority, _, _ := strings.Cut(arg, "/")
	if at := strings.LastIndexByte(authority, '@'); at > 0 && strings.Contains(authority[:at], ":") {
		_, err := os.Stat(arg)
		return err != nil // after a user and a password
	}
	host, port, err := net.SplitHostPort(authority)
	if err != nil || host == "" {
		return false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false
	}
	_, err = os.Stat(arg)
	return err != nil
}

// WithScheme completes a URL that begins with the host, as curl does.
func WithScheme(url string) string {
	if url == "" || strings.Contains(url, "://") || strings.HasPrefix(url, "/") {
		return url
	}
	return "http://" + url
}
