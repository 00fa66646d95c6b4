package dedupe_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// I13: two keys never share a record. The length of each part is hashed, so no
// text can move from one part to the next.
func TestCallIDKeepsPartsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[a-c/]{0,4}`)
		draw := func(name string) [4]string {
			var p [4]string
			for i := range p {
				p[i] = part.Draw(t, name)
			}
			return p
		}
		a, b := draw("a"), draw("b")
		idA, idB := dedupe.CallID(a[0], a[1], a[2], a[3]), dedupe.CallID(b[0], b[1], b[2], b[3])
		if (idA == idB) != (a == b) {
			t.Fatalf("%q and %q: %s and %s", a, b, idA, idB)
		}
		if !dedupe.ValidCallID(idA) {
			t.Fatalf("%q is not valid", idA)
		}
	})
}

// The ID is on the wire and in ledgers: it must never change.
func TestCallIDIsFixed(t *testing.T) {
	if got, want := dedupe.CallID("default", "run_42", "payments.charge", "run_42:7"), "oetiahk6jpbse287tlfoc5b76a"; got != want {
		t.Errorf("call ID %s, want %s", got, want)
	}
	created := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).Format(time.RFC3339Nano)
	got, want := dedupe.MessageID(created, "TOLLGATE_CALLS", 7), "mkg417krejkgdrh6r2i1367jjf"
	if got != want {
		t.Errorf("message ID %s, want %s", got, want)
	}
	if dedupe.MessageID(created, "TOLLGATE_CALLS", 8) == got || dedupe.MessageID(created, "TOLLGATE_JOBS", 7) == got {
		t.Error("two messages share an ID")
	}
}

func TestValidCallID(t *testing.T) {
	id := dedupe.CallID("t", "r", "x", "k")
	for s, want := range map[string]bool{
		id: true, "": false, id[:25]: false, id + "0": false, id[:25] + "w": false, id[:25] + "A": false, id[:25] + ".": false,
	} {
		if dedupe.ValidCallID(s) != want {
			t.Errorf("ValidCallID(%q) is %v", s, !want)
		}
	}
}

func TestLetterID(t *testing.T) {
	const id = "oetiahk6jpbse287tlfoc5b76a"
	call, generation, err := dedupe.ParseLetterID(dedupe.LetterID(id, 12))
	if call != id || generation != 12 || err != nil {
		t.Errorf("%q %d %v", call, generation, err)
	}
	for _, bad := range []string{"", id, id + ".", ".1", id + ".-1", id + ".+1", id + ".x", id + ".*", id + ".1.2", id[1:] + ".1", "*" + id[1:] + ".1"} {
		if _, _, err := dedupe.ParseLetterID(bad); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
}

// An edit is named by the letter and the arguments alone, and fixed like a call's ID.
func TestEditedKeyIsFixed(t *testing.T) {
	const letter, f = "oetiahk6jpbse287tlfoc5b76a.0", "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
	got := dedupe.EditedKey("run_42:7", letter, f)
	if want := "edit:uni9vqfb3uqkf0r5qq1cuot6oa"; got != want || !schemas.ValidKey(got) {
		t.Errorf("key %s, want %s", got, want)
	}
	for _, other := range []string{dedupe.EditedKey("run_42:8", letter, f), dedupe.EditedKey("run_42:7", "oetiahk6jpbse287tlfoc5b76a.1", f), dedupe.EditedKey("run_42:7", letter, f[1:])} {
		if other == got {
			t.Errorf("another edit has the key %s as well", got)
		}
	}
}
