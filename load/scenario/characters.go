package scenario

// The bytes allowed in a path, in the value of a header field, and in metadata. HTTP/1.1's rule for
// paths is also the other versions'.
var pathByte, valueByte, metadataByte = func() (path, value, metadata [256]bool) {
	for b := range 256 {
		path[b] = b > ' ' && b < 0x7f && b != '#'
		value[b] = b >= ' ' && b != 0x7f || b == '\t'
		metadata[b] = b >= ' ' && b < 0x7f
	}
	return path, value, metadata
}()

// checkPath tells whether the path can stand in a request.
func checkPath(path []byte) bool {
	return len(path) > 0 && path[0] == '/' && consistsOf(path, &pathByte)
}

// checkValue tells whether a header field can have the value (RFC 9113, section 8.2.1: it
// neither begins nor ends with a blank).
func checkValue(value []byte, allowed *[256]bool) bool {
	n := len(value)
	return n == 0 || !isBlank(value[0]) && !isBlank(value[n-1]) && consistsOf(value, allowed)
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' }

func consistsOf(s []byte, allowed *[256]bool) bool {
	for _, b := range s {
		if !allowed[b] {
			return false
		}
	}
	return true
}
