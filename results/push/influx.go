package push

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// lineProtocol encodes samples in InfluxDB's line protocol
// (https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol): a line for
// each point, with the metric as the measurement, the labels as tags and one field,
// value. Times are nanoseconds, the default of both versions. The protocol cannot express
// the end of a series.
func lineProtocol(samples []Sample) []byte {
	var b []byte
	for _, s := range samples {
		for _, p := range s.Points {
			if p.Ended || !finite(p.Value) {
				continue
			}
			b = append(b, p.Metric.Name...)
			tags := slices.Concat(s.Labels, p.Labels)
			slices.SortFunc(tags, func(a, b Label) int { return cmp.Compare(a.Name, b.Name) })
			for _, l := range tags {
				if value := tagValue(l.Value); value != "" { // an empty one is a fault
					b = append(b, ',')
					b = append(b, l.Name...)
					b = append(b, '=')
					b = append(b, value...)
				}
			}
			b = append(b, " value="...)
			b = strconv.AppendFloat(b, p.Value, 'g', -1, 64)
			b = append(b, ' ')
			b = strconv.AppendInt(b, s.Time.UnixNano(), 10)
			b = append(b, '\n')
		}
	}
	return b
}

// tagValue escapes special characters in a tag's value. A backslash cannot be escaped
// there, so it becomes a slash. Characters that control a line are replaced too.
func tagValue(s string) string {
	var b strings.Builder
	for _, r := range s { // an invalid byte becomes U+FFFD
		switch {
		case r == '\\':
			b.WriteByte('/')
		case unicode.IsControl(r):
			b.WriteString(`\ `)
		case r == ',' || r == '=' || r == ' ':
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
