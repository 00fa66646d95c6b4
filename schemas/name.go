package schemas

// letters of a name; a run path's segments may have a colon beside them.
const (
	nameBytes   = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	runBytes    = nameBytes + ":"
	tenantBytes = "abcdefghijklmnopqrstuvwxyz0123456789_-"
)

// byteSet is a set of ASCII characters. A pattern would do; every call is checked
// several times, and a pattern takes as long as the rest of the parsing together.
type byteSet [2]uint64

func setOf(chars string) (s byteSet) {
	for i := range len(chars) {
		s[chars[i]>>6] |= 1 << (chars[i] & 63)
	}
	return s
}

func (s byteSet) has(c byte) bool { return c < 128 && s[c>>6]>>(c&63)&1 == 1 }

// segments reports whether s is 1 to most segments of 1 to longest characters of
// the set, joined by sep.
func segments(s string, set byteSet, sep byte, most, longest int) bool {
	n, length := 1, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == sep && length > 0:
			n, length = n+1, 0
		case set.has(c) && length < longest:
			length++
		default:
			return false
		}
	}
	return length > 0 && n <= most
}
