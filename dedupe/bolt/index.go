package bolt

import "slices"

// index finds the sequence of a terminal record. A million entries cost some tens
// of megabytes because it keeps 64 bits of a call ID, not its text; whoever looks
// a call up checks the record it finds.
type index struct {
	first map[uint64]uint64
	more  map[uint64][]uint64 // of IDs that share their first 64 bits
	count int
}

func newIndex() index {
	return index{first: map[uint64]uint64{}, more: map[uint64][]uint64{}}
}

// prefixChars is how many characters of an ID are in its key in full.
const prefixChars = 12

// indexKey packs the first 64 bits of a call ID, five a character.
func indexKey(call string) uint64 {
	var k uint64
	for i := range prefixChars {
		k = k<<5 | charBits(call, i)
	}
	return k<<4 | charBits(call, prefixChars)>>1
}

func charBits(call string, i int) uint64 {
	if i >= len(call) {
		return 0
	}
	switch c := call[i]; {
	case c >= '0' && c <= '9':
		return uint64(c - '0')
	case c >= 'a' && c <= 'v':
		return uint64(c-'a') + 10
	default:
		return uint64(c) & 31
	}
}

func (x *index) add(call string, seq uint64) {
	k := indexKey(call)
	x.count++
	if _, taken := x.first[k]; taken {
		x.more[k] = append(x.more[k], seq)
		return
	}
	x.first[k] = seq
}

func (x *index) remove(call string, seq uint64) {
	k := indexKey(call)
	more := x.more[k]
	switch {
	case x.first[k] != seq:
		i := slices.Index(more, seq)
		if i < 0 {
			return
		}
		more = slices.Delete(more, i, i+1)
	case len(more) > 0:
		x.first[k], more = more[0], more[1:]
	default:
		delete(x.first, k)
	}
	x.count--
	if x.more[k] = more; len(more) == 0 {
		delete(x.more, k)
	}
}

// candidates lists where call may be.
func (x *index) candidates(call string) []uint64 {
	k := indexKey(call)
	seq, ok := x.first[k]
	if !ok {
		return nil
	}
	return append([]uint64{seq}, x.more[k]...)
}

// prefixed lists up to most sequences whose IDs may begin with prefix.
func (x *index) prefixed(prefix string, most int) []uint64 {
	shift := 64 - 5*min(len(prefix), prefixChars)
	want := indexKey(prefix) >> shift
	var out []uint64
	for k, seq := range x.first {
		if k>>shift == want && len(out) < most {
			out = append(append(out, seq), x.more[k]...)
		}
	}
	return out
}
