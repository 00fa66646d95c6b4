package dedupe

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"
)

// callIDLength is how many base32hex characters of the hash name a call: 130 bits.
const callIDLength = 26

var base32hex = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// CallID names one logical operation: the hash of (tenant, root run, tool, key).
func CallID(tenant, root, tool, key string) string {
	return hashID(tenant, root, tool, key)
}

// MessageID names a message that is no call, by where it was stored: the dead
// letter of a refusal. It starts with "m", for whoever reads it, and equals a call's no
// sooner than two calls' are equal.
func MessageID(streamCreated, stream string, sequence uint64) string {
	var seq [8]byte
	binary.BigEndian.PutUint64(seq[:], sequence)
	return "m" + hashID(streamCreated, stream, string(seq[:]))[:callIDLength-1]
}

// EditedKey is the idempotency key of the call that an operator makes of a dead letter
// with other arguments. The same edit has the same key, whoever makes it and however
// often, so that it can only become one call.
func EditedKey(key, letter, fingerprint string) string {
	return "edit:" + hashID(key, letter, fingerprint)
}

// ValidCallID reports whether s has the form of a call ID.
func ValidCallID(s string) bool {
	return len(s) == callIDLength && strings.Trim(s, "0123456789abcdefghijklmnopqrstuv") == ""
}

// hashID hashes a tuple with each part's length before it, so that no two tuples
// share their bytes.
func hashID(parts ...string) string {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return base32hex.EncodeToString(h.Sum(nil))[:callIDLength]
}
