package http2

// A pair is a field as the tables of HPACK have it.
type pair struct{ name, value string }

// staticTable is RFC 7541, appendix A. Its first entry has the index 1.
var staticTable = [...]pair{
	{":authority", ""},
	{":method", "GET"},
	{":method", "POST"},
	{":path", "/"},
	{":path", "/index.html"},
	{":scheme", "http"},
	{":scheme", "https"},
	{":status", "200"},
	{":status", "204"},
	{":status", "206"},
	{":status", "304"},
	{":status", "400"},
	{":status", "404"},
	{":status", "500"},
	{"accept-charset", ""},
	{"accept-encoding", "gzip, deflate"},
	{"accept-language", ""},
	{"accept-ranges", ""},
	{"accept", ""},
	{"access-control-allow-origin", ""},
	{"age", ""},
	{"allow", ""},
	{"authorization", ""},
	{"cache-control", ""},
	{"content-disposition", ""},
	{"content-encoding", ""},
	{"content-language", ""},
	{"content-length", ""},
	{"content-location", ""},
	{"content-range", ""},
	{"content-type", ""},
	{"cookie", ""},
	{"date", ""},
	{"etag", ""},
	{"expect", ""},
	{"expires", ""},
	{"from", ""},
	{"host", ""},
	{"if-match", ""},
	{"if-modified-since", ""},
	{"if-none-match", ""},
	{"if-range", ""},
	{"if-unmodified-since", ""},
	{"last-modified", ""},
	{"link", ""},
	{"location", ""},
	{"max-forwards", ""},
	{"proxy-authenticate", ""},
	{"proxy-authorization", ""},
	{"range", ""},
	{"referer", ""},
	{"refresh", ""},
	{"retry-after", ""},
	{"server", ""},
	{"set-cookie", ""},
	{"strict-transport-security", ""},
	{"transfer-encoding", ""},
	{"user-agent", ""},
	{"vary", ""},
	{"via", ""},
	{"www-authenticate", ""},
}

// indexPath and indexContentLength are the static table's entries of those names.
const (
	indexPath          = 4
	indexContentLength = 28
)

// staticIndex returns the index of a field in the static table, or of one with the same
// name; 0 if there is none.
func staticIndex(name, value string) (index int, whole bool) {
	for i, p := range staticTable {
		if p.name != name {
			continue
		}
		if p.value == value && value != "" {
			return i + 1, true
		}
		if index == 0 {
			index = i + 1
		}
	}
	return index, false
}

// entryOverhead is an entry's size beyond its name and value in a table (RFC 7541, section 4.1). A
// section counts its fields alike (RFC 9113, section 6.5.2).
const entryOverhead = 32

// defaultTableSize is the dynamic table's size until something else is agreed on
// (RFC 9113, section 6.5.2).
const defaultTableSize = 4096
