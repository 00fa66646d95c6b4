package control

import (
	"math"

	"tollgate/dedupe"
)

// liveCall marks the cursors of calls that have not ended: the ledger numbers only those
// that have, and lists the others before them, by when they were published.
const liveCall = 1 << 63

// mostTied bounds by how much a page is longer for calls published in one nanosecond,
// between which no cursor stands.
const mostTied = 200

// callCursor says where a call stands in the list of calls. It falls along the list.
func callCursor(seq uint64, r *dedupe.Record) uint64 {
	if seq != math.MaxUint64 {
		return seq
	}
	return liveCall | uint64(max(0, r.Published.UnixNano()))
}

// below is where the ledger's list begins for what comes after a cursor.
func below(cursor uint64) uint64 {
	if cursor >= liveCall {
		return 0
	}
	return cursor
}
